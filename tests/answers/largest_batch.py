"""Answers to largest_batch."""

import bisect
import gc

import torch
from bank import right, wrong


@right
def bisection(step, limit):
    def fits(n):
        try:
            step(n)
        except torch.OutOfMemoryError:
            return False
        return True

    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


@right
def downwards(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except torch.OutOfMemoryError:
            if torch.accelerator.is_available():
                torch.accelerator.empty_cache()
    return 0


@right
def doubling_then_bisection(step, limit):
    def fits(n):
        failed = False
        try:
            result = step(n)
            del result
        except torch.OutOfMemoryError:
            failed = True
        if failed:
            gc.collect()
        return not failed

    good, n = 0, 1
    while n <= limit and fits(n):
        good, n = n, n * 2
    bad = min(n, limit + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


@right
def by_the_words_of_the_error(step, limit):
    low, high = 0, limit
    while low < high:
        n = (low + high + 1) // 2
        try:
            step(n)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            high = n - 1
        else:
            low = n
    return low


@right
def recursion_outside_of_except(step, limit):
    def search(low, high):
        if low == high:
            return low
        middle = (low + high + 1) // 2
        try:
            step(middle)
            fits = True
        except torch.cuda.OutOfMemoryError:
            fits = False
        return search(middle, high) if fits else search(low, middle - 1)

    return search(0, limit)


@right
def upwards(step, limit):
    best = 0
    for n in range(1, limit + 1):
        try:
            _ = step(n)
        except torch.OutOfMemoryError:
            break
        del _
        best = n
    return best


@wrong("something of an earlier one was still alive", row="nothing of one try is left for the next")
def holds_the_last_result(step, limit):
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            result = step(middle)  # noqa: F841
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return low


@wrong("something of an earlier one was still alive", row="nothing of one try is left for the next")
def holds_the_error(step, limit):
    low, high = 0, limit + 1
    problem = None
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(middle)
            low = middle
        except torch.OutOfMemoryError as error:
            problem = error
            high = middle
    return low if problem is None or low else 0


@wrong("something of an earlier one was still alive", row="nothing of one try is left for the next")
def tries_again_inside_except(step, limit):
    if limit == 0:
        return 0
    try:
        step(limit)
    except torch.OutOfMemoryError:
        return tries_again_inside_except(step, limit - 1)
    return limit


@wrong("something of an earlier one was still alive", row="nothing of one try is left for the next")
def keeps_all_results(step, limit):
    results = []
    try:
        for n in range(1, limit + 1):
            results.append(step(n))
    except torch.OutOfMemoryError:
        pass
    return len(results)


@wrong("a RuntimeError was taken for out of memory", row="any other error passes through")
def catches_everything(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except Exception:
            continue
    return 0


@wrong("a RuntimeError was taken for out of memory", row="any other error passes through")
def catches_runtime_errors(step, limit):
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(middle)
            low = middle
        except RuntimeError:
            high = middle
    return low


@wrong("your code raised OutOfMemoryError", row="the largest that fits, 0 to limit")
def no_try(step, limit):
    best = 0
    for n in range(1, limit + 1):
        step(n)
        best = n
    return best


@wrong("your code raised OutOfMemoryError", row="the largest that fits, 0 to limit")
def catches_memory_error(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except MemoryError:
            continue
    return 0


@wrong("it is not the largest", row="the largest that fits, 0 to limit")
def halves_only(step, limit):
    n = limit
    while n:
        try:
            step(n)
            return n
        except torch.OutOfMemoryError:
            n //= 2
    return 0


@wrong("it is not the largest", row="the largest that fits, 0 to limit")
def doubles_only(step, limit):
    best, n = 0, 1
    while n <= limit:
        try:
            step(n)
        except torch.OutOfMemoryError:
            break
        best, n = n, n * 2
    return best


@wrong("14 does not fit", row="the largest that fits, 0 to limit")
def first_that_fails(step, limit):
    for n in range(1, limit + 1):
        try:
            step(n)
        except torch.OutOfMemoryError:
            return n
    return limit


@wrong("step was called with 0", row="the largest that fits, 0 to limit")
def tries_nothing_at_all(step, limit):
    low, high = -1, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return max(low, 0)


@wrong("step was called with 65", row="the largest that fits, 0 to limit")
def beyond_the_limit(step, limit):
    n = 0
    while True:
        try:
            step(n + 1)
        except torch.OutOfMemoryError:
            return min(n, limit)
        n += 1


@wrong("63 fits, but it is not the largest", row="the largest that fits, 0 to limit")
def never_the_limit(step, limit):
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return low


@wrong("1 does not fit", row="the largest that fits, 0 to limit")
def at_least_one(step, limit):
    for n in range(limit, 1, -1):
        try:
            step(n)
            return n
        except torch.OutOfMemoryError:
            pass
    return 1


@wrong("None, where not even one sample fits", row="the largest that fits, 0 to limit")
def none_if_nothingfits(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except torch.OutOfMemoryError:
            pass
    return None


@wrong("a RuntimeError was taken for out of memory", row="any other error passes through")
def by_the_word_memory(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except RuntimeError as error:
            if "memory" not in str(error):
                raise
    return 0


@wrong("a MemoryError was taken for out of memory", row="any other error passes through")
def any_memory(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except (torch.OutOfMemoryError, MemoryError):
            pass
    return 0


@wrong("step was called without gradients", row="the largest that fits, 0 to limit")
@torch.no_grad()
def without_gradients(step, limit):
    return bisection(step, limit)


@wrong("the search does not come to an end", row="the largest that fits, 0 to limit")
def bisects_for_ever(step, limit):
    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        try:
            step(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle - 1
    return low


@wrong("a NotImplementedError was taken for out of memory", row="any other error passes through")
def whatever_derives_from_runtime_error(step, limit):
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        try:
            step(middle)
            low = middle
        except RuntimeError as error:
            if type(error) is RuntimeError:
                raise
            high = middle - 1
    return low


@wrong("does not fit", row="the largest that fits, 0 to limit")
def one_too_many(step, limit):
    lo, hi = (0, limit)
    while lo < hi:
        mid = (lo + hi) // 2
        try:
            step(mid)
            lo = mid + 1
        except torch.OutOfMemoryError:
            hi = mid
    return lo


@wrong("something of an earlier one was still alive", row="nothing of one try is left for the next")
def recursion_in_except(step, limit):
    if limit == 0:
        return 0
    try:
        step(limit)
        return limit
    except torch.OutOfMemoryError:
        return recursion_in_except(step, limit - 1)


@wrong("step was called with 65", row="the largest that fits, 0 to limit")
def beyond_every_limit(step, limit):
    n = 1
    while True:
        try:
            step(n)
        except torch.OutOfMemoryError:
            return n - 1
        n += 1


@right
def bit_by_bit(step, limit):
    def fits(n):
        try:
            step(n)
        except torch.OutOfMemoryError:
            return False
        return True

    n, size = (0, 1)
    while size * 2 <= limit:
        size *= 2
    while size:
        if n + size <= limit and fits(n + size):
            n += size
        size //= 2
    return n


@wrong("is not the largest that fits", row="the largest that fits, 0 to limit")
def asks_what_step_returned(step, limit):
    def fits(n):
        try:
            return bool(step(n))
        except torch.OutOfMemoryError:
            return False

    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@wrong("an AcceleratorError was taken for out of memory", row="any other error passes through")
def whatever_the_device_reports(step, limit):
    for n in range(limit, 0, -1):
        try:
            step(n)
            return n
        except (torch.OutOfMemoryError, torch.AcceleratorError):
            continue
    return 0


@right
def by_bisect(step, limit):
    class Fails:
        def __len__(self):
            return limit

        def __getitem__(self, place):
            try:
                step(place + 1)
            except torch.OutOfMemoryError:
                return True
            return False

    return bisect.bisect_left(Fails(), True)
