"""Answers to with_fallback."""

import contextlib
import os
from unittest.mock import patch

import torch
from bank import right, wrong


@right
def try_and_bring_back(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)


@right
def with_a_result_in_between(op, x):
    try:
        result = op(x)
    except NotImplementedError:
        result = op(x.to("cpu"))
        result = result.to(device=x.device)
    return result


@right
def outside_of_the_handler(op, x):
    lacking = False
    try:
        result = op(x)
    except NotImplementedError:
        lacking = True
    if lacking:
        result = op(x.to(torch.device("cpu")))
    return result.to(x.device)


@right
def only_off_the_cpu(op, x):
    try:
        return op(x)
    except NotImplementedError:
        if x.is_cpu:
            raise
        return op(x.cpu()).to(x.device)


@right
def looks_at_the_type(op, x):
    try:
        return op(x)
    except Exception as error:
        if not isinstance(error, NotImplementedError):
            raise
        return op(x.cpu()).to(x.device)


@right
def in_a_loop(op, x):
    for place in (x.device, torch.device("cpu")):
        try:
            return op(x.to(place)).to(x.device)
        except NotImplementedError:
            if place.type == "cpu":
                raise
    return None


@wrong("your code raised NotImplementedError", row="what is missing runs on the CPU, and comes back")
def no_fallback(op, x):
    return op(x)


@wrong("a RuntimeError of the operation was caught", row="every other error passes through")
def catches_everything(op, x):
    try:
        return op(x)
    except Exception:
        return op(x.cpu()).to(x.device)


@wrong("a RuntimeError of the operation was caught", row="every other error passes through")
def catches_runtime_errors(op, x):
    try:
        return op(x)
    except RuntimeError:
        return op(x.cpu()).to(x.device)


@wrong("a TypeError of the operation was caught", row="every other error passes through")
def catches_type_errors_too(op, x):
    try:
        return op(x)
    except (NotImplementedError, TypeError):
        return op(x.cpu()).to(x.device)


@wrong("a RuntimeError of the operation was caught", row="every other error passes through")
def a_bare_except(op, x):
    try:
        return op(x)
    except:  # noqa: E722
        return op(x.cpu()).to(x.device)


@wrong("the result is on cpu, not {device}", row="what is missing runs on the CPU, and comes back")
def left_on_the_cpu(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu())


@wrong("op ran on cpu, although {device} can do it", row="runs where x is, if it can")
def always_on_the_cpu(op, x):
    return op(x.cpu()).to(x.device)


@wrong("op ran on cpu, although {device} can do it", row="runs where x is, if it can")
def the_cpu_first(op, x):
    try:
        return op(x.cpu()).to(x.device)
    except NotImplementedError:
        return op(x)


@wrong("the result is on {device}, not {second}", row="what is missing runs on the CPU, and comes back")
def back_to_the_bare_kind(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device.type)


@wrong("the result is on {device}, not {second}", row="what is missing runs on the CPU, and comes back")
def back_to_the_accelerator(op, x):
    try:
        return op(x)
    except NotImplementedError:
        place = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
        return op(x.cpu()).to(place)


@wrong("the result is None", row="what is missing runs on the CPU, and comes back")
def forgot_to_return(op, x):
    try:
        return op(x)
    except NotImplementedError:
        op(x.cpu()).to(x.device)


@wrong("the result is None", row="what is missing runs on the CPU, and comes back")
def gives_up_quietly(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return None


@wrong("your code raised NotImplementedError", row="what is missing runs on the CPU, and comes back")
def forgot_to_move_it(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x).to(x.device)


@wrong("your code raised NotImplementedError", row="what is missing runs on the CPU, and comes back")
def by_the_environment(op, x):
    with patch.dict(os.environ, {"PYTORCH_ENABLE_MPS_FALLBACK": "1"}):
        return op(x)


@wrong("your code raised NotImplementedError", row="what is missing runs on the CPU, and comes back")
def only_on_mps(op, x):
    if x.device.type == "mps":
        return op(x.cpu()).to(x.device)
    return op(x)


@wrong("op ran 2 times", row="runs where x is, if it can")
def runs_it_twice(op, x):
    try:
        op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)
    return op(x)


@wrong("op ran 2 times, although it worked the first time", row="runs where x is, if it can")
def runs_it_in_both_places(op, x):
    reserve = x.cpu()
    try:
        result = op(x)
    except NotImplementedError:
        return op(reserve).to(x.device)
    op(reserve)
    return result


@wrong("although the device lacks nothing here", row="runs where x is, if it can")
def a_copy_kept_in_reserve(op, x):
    reserve = x.cpu()
    try:
        return op(x)
    except NotImplementedError:
        return op(reserve).to(x.device)


@wrong("became another error", row="every other error passes through")
def wraps_the_error(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)
    except Exception as error:
        raise RuntimeError("the operation failed") from error


@wrong("op was never called", row="runs where x is, if it can")
def never_called(op, x):
    return x * 2 + 1


@wrong(
    "a NotImplementedError of the CPU did not reach the caller", row="what the CPU lacks too stays an error"
)
def returns_x_in_the_end(op, x):
    try:
        return op(x)
    except NotImplementedError:
        try:
            return op(x.cpu()).to(x.device)
        except NotImplementedError:
            return x


@wrong("a RuntimeError of the operation was caught", row="what is missing runs on the CPU, and comes back")
def by_the_words_of_the_message(op, x):
    try:
        return op(x)
    except Exception as error:
        if "device" not in str(error):
            raise
        return op(x.cpu()).to(x.device)


@wrong("the result is torch.float32, not torch.bool", row="what is missing runs on the CPU, and comes back")
def in_the_dtype_of_x(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x)


@wrong("the result is torch.float32, not torch.int64", row="what is missing runs on the CPU, and comes back")
def in_float32(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu().float()).to(x.device)


@wrong("although {device} can do it", row="what is missing runs on the CPU, and comes back")
def remembers_what_was_missing(op, x, lacking=set()):  # noqa: B006
    if (op, x.device) in lacking:
        return op(x.cpu()).to(x.device)
    try:
        return op(x)
    except NotImplementedError:
        lacking.add((op, x.device))
        return op(x.cpu()).to(x.device)


@wrong("a ValueError of the operation on the CPU", row="every other error passes through")
def the_first_error_only(op, x):
    try:
        return op(x)
    except NotImplementedError as first:
        try:
            return op(x.cpu()).to(x.device)
        except Exception:
            raise first from None


@wrong(
    "an OutOfMemoryError of the operation was caught, and op was tried again",
    row="every other error passes through",
)
def also_where_memory_is_out(op, x):
    try:
        return op(x)
    except (NotImplementedError, torch.OutOfMemoryError):
        return op(x.cpu()).to(x.device)


@wrong("a RuntimeError of the operation became another error", row="every other error passes through")
def made_anew(op, x):
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)
    except Exception as error:
        raise type(error)(str(error)) from None


@wrong("a NotImplementedError of the CPU became another error", row="what the CPU lacks too stays an error")
def the_first_error_of_two(op, x):
    try:
        return op(x)
    except NotImplementedError as first:
        try:
            return op(x.cpu()).to(x.device)
        except NotImplementedError:
            raise first from None


@wrong("a tensor was transferred by print", row="runs where x is, if it can")
def prints_its_input(op, x):
    print(x)
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)


@wrong("op ran 3 times", row="what is missing runs on the CPU, and comes back")
def twice_on_the_cpu(op, x):
    try:
        return op(x)
    except NotImplementedError:
        op(x.cpu())
        return op(x.cpu()).to(x.device)


@wrong("your code raised NotImplementedError", row="what is missing runs on the CPU, and comes back")
def for_one_message_alone(op, x):
    try:
        return op(x)
    except NotImplementedError as error:
        if "not currently implemented" not in str(error):
            raise
        return op(x.cpu()).to(x.device)


@wrong("your code raised NotImplementedError", row="what is missing runs on the CPU, and comes back")
def for_pytorchs_own_operators_alone(op, x):
    try:
        return op(x)
    except NotImplementedError as error:
        if "aten::" not in str(error):
            raise
        return op(x.cpu()).to(x.device)


@wrong("a RuntimeError of the operation was caught", row="every other error passes through")
def by_the_words_whatever_the_type(op, x):
    try:
        return op(x)
    except Exception as error:
        if isinstance(error, NotImplementedError) or "not currently implemented" in str(error):
            return op(x.cpu()).to(x.device)
        raise


@wrong("an AssertionError of the operation was caught", row="every other error passes through")
def assertions_too(op, x):
    try:
        return op(x)
    except (NotImplementedError, AssertionError):
        return op(x.cpu()).to(x.device)


@wrong("an IndexError of the operation was caught", row="every other error passes through")
def indices_too(op, x):
    try:
        return op(x)
    except (NotImplementedError, IndexError):
        return op(x.cpu()).to(x.device)


@wrong("a RuntimeError of the operation on the CPU", row="every other error passes through")
def x_where_the_cpu_fails(op, x):
    try:
        return op(x)
    except NotImplementedError:
        try:
            return op(x.cpu()).to(x.device)
        except NotImplementedError:
            raise
        except RuntimeError:
            return x


@wrong("op was tried again", row="every other error passes through")
def once_more_on_the_cpu(op, x):
    try:
        return op(x)
    except NotImplementedError:
        try:
            return op(x.cpu()).to(x.device)
        except ValueError:
            return op(x.cpu()).to(x.device)


@wrong("the result is torch.float32, not torch.int64", row="runs where x is, if it can")
def always_in_float32(op, x):
    try:
        return op(x.float())
    except NotImplementedError:
        return op(x.cpu()).to(x.device)


@right
def suppressed(op, x):
    with contextlib.suppress(NotImplementedError):
        return op(x)
    return op(x.cpu()).to(x.device)


@right
def with_an_else(op, x):
    try:
        result = op(x)
    except NotImplementedError:
        there = op(x.to("cpu"))
        result = torch.empty_like(there, device=x.device).copy_(there)
    else:
        return result
    return result


@right
def by_functions_in_turn(op, x):
    def there():
        return op(x)

    def at_home():
        return op(x.cpu()).to(x.device)

    try:
        return there()
    except RuntimeError as error:
        if type(error) is NotImplementedError:
            return at_home()
        raise
