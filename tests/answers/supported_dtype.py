"""Answers to supported_dtype."""

import contextlib

import torch
from bank import right, wrong


@right
def tries_an_empty_tensor(dtype, device):
    try:
        torch.empty(0, dtype=dtype, device=device)
    except TypeError:
        return torch.float32
    return dtype


@right
def asks_about_float64_alone(dtype, device):
    if dtype != torch.float64:
        return dtype
    try:
        torch.zeros(1, device=device).to(torch.float64)
        return dtype
    except (TypeError, RuntimeError):
        return torch.float32


@right
def tries_to_move_one(dtype, device):
    if dtype is torch.float64:
        try:
            torch.tensor(1.0, dtype=dtype).to(device)
        except Exception:
            return torch.float32
    return dtype


@right
def asks_the_device_that_has_no_name(dtype, device):
    def has(wanted):
        try:
            return torch.ones(1, device=device, dtype=wanted).dtype == wanted
        except Exception:
            return False

    return torch.float32 if dtype == torch.float64 and not has(torch.float64) else dtype


@right
def by_a_table(dtype, device):
    table = {torch.float64: torch.float32}
    try:
        torch.tensor([], dtype=dtype, device=device)
        return dtype
    except TypeError:
        return table[dtype]


@right
def by_trying_a_sum(dtype, device):
    try:
        torch.ones(2, device=device).sum(dtype=torch.float64)
    except TypeError:
        return torch.float32 if dtype == torch.float64 else dtype
    return dtype


@wrong(
    "follows Apple's rules here and has no float64, and the answer is torch.float64",
    row="float64 becomes float32 under Apple's rules",
)
def nothing_to_do(dtype, device):
    return dtype


@wrong(
    "follows Apple's rules here and has no float64, and the answer is torch.float64",
    row="float64 becomes float32 under Apple's rules",
)
def only_by_the_name(dtype, device):
    if torch.device(device).type == "mps" and dtype == torch.float64:
        return torch.float32
    return dtype


@wrong("cpu has float64, and the answer is torch.float32", row="float64 stays where the device has it")
def float32_everywhere(dtype, device):
    return torch.float32 if dtype == torch.float64 else dtype


@wrong("has float64, and the answer is torch.float32", row="float64 stays where the device has it")
def only_the_cpu_is_trusted(dtype, device):
    if device.type != "cpu" and dtype == torch.float64:
        return torch.float32
    return dtype


@wrong("has float64, and the answer is torch.float32", row="float64 stays where the device has it")
def only_cuda_and_the_cpu_are_trusted(dtype, device):
    return torch.float32 if dtype == torch.float64 and device.type not in ("cuda", "rocm") else dtype


@wrong("has torch.float16, and the answer is torch.float32", row="every other dtype stays")
def always_float32(dtype, device):
    try:
        torch.empty(0, dtype=torch.float64, device=device)
        return dtype if dtype == torch.float64 else torch.float32
    except TypeError:
        return torch.float32


@wrong("exists under Apple's rules, and the answer is torch.float32", row="also under Apple's rules")
def all_become_float32_there(dtype, device):
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except TypeError:
        return torch.float32
    return dtype


@wrong(
    "bfloat16 exists under Apple's rules, and the answer is torch.float32",
    row="also under Apple's rules",
)
def halves_are_mistrusted(dtype, device):
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except TypeError:
        return torch.float32 if dtype in (torch.float64, torch.bfloat16) else dtype
    return dtype


@wrong("the answer is torch.float16", row="float64 becomes float32 under Apple's rules")
def too_small(dtype, device):
    try:
        torch.empty(0, dtype=dtype, device=device)
        return dtype
    except TypeError:
        return torch.float16


@wrong("the answer is a str, not a torch.dtype", row="float64 stays where the device has it")
def a_string(dtype, device):
    try:
        torch.empty(0, dtype=dtype, device=device)
        return str(dtype)
    except TypeError:
        return "torch.float32"


@wrong("the answer is a Tensor, not a torch.dtype", row="float64 stays where the device has it")
def a_tensor(dtype, device):
    try:
        return torch.empty(0, dtype=dtype, device=device)
    except TypeError:
        return torch.empty(0, device=device)


@wrong("the answer is a bool, not a torch.dtype", row="float64 stays where the device has it")
def only_whether(dtype, device):
    try:
        torch.empty(0, dtype=dtype, device=device)
    except TypeError:
        return False
    return True


@wrong("your code raised TypeError", row="float64 becomes float32 under Apple's rules")
def catches_the_wrong_error(dtype, device):
    try:
        torch.empty(0, dtype=dtype, device=device)
    except NotImplementedError:
        return torch.float32
    return dtype


@wrong("your code raised TypeError", row="float64 becomes float32 under Apple's rules")
def converts_on_the_device(dtype, device):
    return torch.zeros(1, dtype=dtype, device=device).dtype


@wrong("the answer is None", row="float64 stays where the device has it")
def no_return_where_it_is_fine(dtype, device):
    try:
        torch.empty(0, dtype=dtype, device=device)
    except TypeError:
        return torch.float32


@wrong(
    "follows Apple's rules here and has no float64, and the answer is torch.float64",
    row="float64 becomes float32 under Apple's rules",
)
def tries_on_the_cpu(dtype, device):
    try:
        torch.empty(0, dtype=dtype)
    except TypeError:
        return torch.float32
    return dtype


@wrong(
    "follows Apple's rules here and has no float64, and the answer is torch.float64",
    row="float64 becomes float32 under Apple's rules",
)
def asks_whether_mps_is_here(dtype, device):
    if torch.backends.mps.is_available() and dtype == torch.float64:
        return torch.float32
    return dtype


known = {}


@wrong("the answer is torch.float", row="float64 becomes float32 under Apple's rules")
def remembers_by_the_name(dtype, device):
    if (dtype, device) not in known:
        known[dtype, device] = tries_an_empty_tensor(dtype, device)
    return known[dtype, device]


@wrong("the CPU has torch.float8_e5m2, and the answer is torch.float32", row="every other dtype stays")
def whatever_can_be_doubled(dtype, device):
    try:
        torch.ones(1, dtype=dtype, device=device) * 2
    except Exception:
        return torch.float32
    return dtype


lacking = set()


@wrong("has float64, and the answer is torch.float32", row="float64 becomes float32 under Apple's rules")
def remembers_what_was_lacking(dtype, device):
    if tries_to_move_one(dtype, device) != dtype:
        lacking.add(device)
    return torch.float32 if dtype == torch.float64 and device in lacking else dtype


@wrong("has torch.int16, and the answer is torch.int32", row="every other dtype stays")
def small_integers_on_the_cpu_alone(dtype, device):
    if dtype in (torch.int8, torch.int16) and device.type != "cpu":
        return torch.int32
    return tries_to_move_one(dtype, device)


@right
def by_computing_with_it(dtype, device):
    if dtype is not torch.float64:
        return dtype
    try:
        (torch.zeros(2, device=device).double() * 2).sum()
    except Exception:
        return torch.float32
    return torch.float64


@right
def by_a_sum_that_may_fail(dtype, device):
    works = False
    with contextlib.suppress(TypeError, RuntimeError):
        torch.ones(3, device=device, dtype=torch.float64).mul_(2)
        works = True
    return dtype if works or dtype != torch.float64 else torch.float32


@right
def the_cpu_has_all(dtype, device):
    if device.type == "cpu" or dtype != torch.float64:
        return dtype
    return tries_to_move_one(dtype, device)
