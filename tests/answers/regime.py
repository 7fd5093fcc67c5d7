"""Answers to regime."""

import torch
from bank import right, wrong
from torch.utils.flop_counter import FlopCounterMode

HALF = (torch.float16, torch.bfloat16)
FLOAT32_INTENSITY = "the arithmetic intensity in float32"
HALF_INTENSITY = "the arithmetic intensity in 16 bits"
LONGEST = "the longest of three times decides"
HALF_RATE = "16-bit floats at half_rate"
EVERY_CHIP = "every chip by its own figures"
EQUAL = "equal times: the first in the order"


@right
def longest_of_a_dict(rows, inner, columns, dtype, chip):
    operations = 2 * rows * inner * columns
    moved = dtype.itemsize * (rows * inner + inner * columns + rows * columns)
    times = {
        "overhead": chip["launch"],
        "bandwidth": moved / chip["bandwidth"],
        "compute": operations / chip["rate" if dtype == torch.float32 else "half_rate"],
    }
    return max(times, key=times.get), operations / moved


@right
def by_the_balance(rows, inner, columns, dtype, chip):
    rate = chip["half_rate"] if dtype in HALF else chip["rate"]
    operations = rows * columns * (inner + inner)
    moved = (rows * inner + inner * columns + rows * columns) * dtype.itemsize
    intensity = operations / moved
    if intensity > rate / chip["bandwidth"]:
        name, seconds = "compute", operations / rate
    else:
        name, seconds = "bandwidth", moved / chip["bandwidth"]
    return ("overhead" if chip["launch"] >= seconds else name), intensity


@right
def what_a_launch_pays_for(rows, inner, columns, dtype, chip):
    """Compare work with work: what could be moved and computed during a launch."""
    bits = torch.finfo(dtype).bits
    rate = {16: chip["half_rate"], 32: chip["rate"]}[bits]
    moved = bits * (rows * inner + inner * columns + rows * columns) / 8
    operations = 2 * rows * inner * columns
    intensity = operations / moved
    if moved <= chip["launch"] * chip["bandwidth"] and operations <= chip["launch"] * rate:
        return "overhead", intensity
    return ("bandwidth" if operations * chip["bandwidth"] <= moved * rate else "compute"), intensity


@right
def counted_by_pytorch(rows, inner, columns, dtype, chip):
    """Multiply matrices without memory, and let PyTorch count."""
    with torch.device("meta"):
        a, b = torch.empty(rows, inner, dtype=dtype), torch.empty(inner, columns, dtype=dtype)
    with FlopCounterMode(display=False) as counter:
        c = a @ b
    operations, moved = counter.get_total_flops(), a.nbytes + b.nbytes + c.nbytes
    rate = chip["half_rate"] if dtype.itemsize == 2 else chip["rate"]
    seconds = [chip["launch"], moved / chip["bandwidth"], operations / rate]
    return ("overhead", "bandwidth", "compute")[seconds.index(max(seconds))], operations / moved


@right
def sorted_times(rows, inner, columns, dtype, chip):
    operations = sum(2 * inner * columns for _ in range(rows))
    moved = sum(dtype.itemsize * a * b for a, b in ((rows, inner), (inner, columns), (rows, columns)))
    rate = chip["half_rate"] if dtype in HALF else chip["rate"]
    times = [
        ("overhead", chip["launch"]),
        ("bandwidth", moved / chip["bandwidth"]),
        ("compute", operations / rate),
    ]
    return sorted(times, key=lambda pair: -pair[1])[0][0], operations / moved


def counts(rows, inner, columns, dtype, chip):
    """Return operations, bytes and rate; the wrong answers below go on from here, or fail to."""
    operations = 2 * rows * inner * columns
    moved = dtype.itemsize * (rows * inner + inner * columns + rows * columns)
    return operations, moved, chip["half_rate" if dtype in HALF else "rate"]


def answer(operations, moved, rate, chip):
    """Return the longest of three times, and the intensity."""
    times = {
        "overhead": chip["launch"],
        "bandwidth": moved / chip["bandwidth"],
        "compute": operations / rate,
    }
    return max(times, key=times.get), operations / moved


@wrong("the result's bytes are missing: it is written, and that takes bandwidth, too", row=FLOAT32_INTENSITY)
def without_the_result(rows, inner, columns, dtype, chip):
    operations, _, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, dtype.itemsize * (rows * inner + inner * columns), rate, chip)


@wrong("4 bytes were taken for each number, and torch.float16 has 2", row=HALF_INTENSITY)
def always_four_bytes(rows, inner, columns, dtype, chip):
    operations, _, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, 4 * (rows * inner + inner * columns + rows * columns), rate, chip)


@wrong(
    "the operations are twice as many: each term takes a multiplication and an addition",
    row=FLOAT32_INTENSITY,
)
def without_the_factor_two(rows, inner, columns, dtype, chip):
    _, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(rows * inner * columns, moved, rate, chip)


@wrong("a sum was counted with one addition fewer than it has terms", row=FLOAT32_INTENSITY)
def one_addition_fewer(rows, inner, columns, dtype, chip):
    _, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(rows * columns * (2 * inner - 1), moved, rate, chip)


@wrong("the numbers were counted, and not their bytes", row=FLOAT32_INTENSITY)
def numbers_for_bytes(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved / dtype.itemsize, rate, chip)


@wrong("the bytes were counted as bits", row=FLOAT32_INTENSITY)
def bits_for_bytes(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, 8 * moved, rate, chip)


@wrong("that is bytes ÷ operations: the intensity is operations ÷ bytes", row=FLOAT32_INTENSITY)
def bytes_for_each_operation(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved, rate, chip)[0], moved / operations


@wrong("rows ÷ 2 is the lesson's estimate for a layer that is large beside its rows", row=FLOAT32_INTENSITY)
def half_the_rows(rows, inner, columns, dtype, chip):
    return answer(*counts(rows, inner, columns, dtype, chip), chip)[0], rows / 2


@wrong("the matrices' numbers were read again for every term: each is read once", row=FLOAT32_INTENSITY)
def nothing_is_read_once(rows, inner, columns, dtype, chip):
    operations, _, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, dtype.itemsize * (operations + rows * columns), rate, chip)


@wrong("the intensity was rounded to a whole number", row=FLOAT32_INTENSITY)
def whole_numbers(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved, rate, chip)[0], float(operations // moved)


@wrong("not the operations ÷ the bytes that are read and written", row=FLOAT32_INTENSITY)
def the_machines_balance(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved, rate, chip)[0], rate / chip["bandwidth"]


@wrong("the result is a str, not a tuple of the regime and the intensity", row=FLOAT32_INTENSITY)
def the_regime_alone(rows, inner, columns, dtype, chip):
    return answer(*counts(rows, inner, columns, dtype, chip), chip)[0]


@wrong("the regime comes first, and the intensity second", row=FLOAT32_INTENSITY)
def the_intensity_first(rows, inner, columns, dtype, chip):
    return answer(*counts(rows, inner, columns, dtype, chip), chip)[::-1]


@wrong("that is no name of a regime: they are three, in small letters", row=FLOAT32_INTENSITY)
def in_other_words(rows, inner, columns, dtype, chip):
    name, intensity = answer(*counts(rows, inner, columns, dtype, chip), chip)
    return name.capitalize(), intensity


@wrong("the result is None: is a `return` missing?", row=FLOAT32_INTENSITY)
def printed(rows, inner, columns, dtype, chip):
    print(answer(*counts(rows, inner, columns, dtype, chip), chip))


@wrong("the launch was left out: it is one of the three times", row=LONGEST)
def without_the_launch(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    intensity = operations / moved
    return ("compute" if intensity > rate / chip["bandwidth"] else "bandwidth"), intensity


@wrong("half_rate was left out: 16-bit floats have a rate of their own", row=HALF_RATE)
def without_the_half_rate(rows, inner, columns, dtype, chip):
    operations, moved, _ = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved, chip["rate"], chip)


@wrong("half_rate was taken for every dtype", row=LONGEST)
def always_the_half_rate(rows, inner, columns, dtype, chip):
    operations, moved, _ = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved, chip["half_rate"], chip)


@wrong("half_rate is that of bfloat16, too, and not of float16 alone", row=HALF_RATE)
def half_is_float16(rows, inner, columns, dtype, chip):
    operations, moved, _ = counts(rows, inner, columns, dtype, chip)
    return answer(operations, moved, chip["half_rate" if dtype == torch.float16 else "rate"], chip)


@wrong("bandwidth and compute are the wrong way round: a high intensity means compute", row=LONGEST)
def the_wrong_side(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    intensity = operations / moved
    if chip["launch"] >= max(moved / chip["bandwidth"], operations / rate):
        return "overhead", intensity
    return ("bandwidth" if intensity > rate / chip["bandwidth"] else "compute"), intensity


@wrong("that is the regime of the shortest time: the longest decides", row=LONGEST)
def the_shortest(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    times = [chip["launch"], moved / chip["bandwidth"], operations / rate]
    return ("overhead", "bandwidth", "compute")[times.index(min(times))], operations / moved


@wrong("the launch was compared with the sum of the other two: the three go on side by side", row=LONGEST)
def against_the_sum(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    moving, computing = moved / chip["bandwidth"], operations / rate
    if chip["launch"] >= moving + computing:
        return "overhead", operations / moved
    return ("compute" if computing > moving else "bandwidth"), operations / moved


@wrong("a launch that is longer than one of the other two need not be the longest", row=LONGEST)
def longer_than_either(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    moving, computing = moved / chip["bandwidth"], operations / rate
    if chip["launch"] > moving or chip["launch"] > computing:
        return "overhead", operations / moved
    return ("compute" if computing > moving else "bandwidth"), operations / moved


@wrong("above the balance, too, the launch may be the longest", row=LONGEST)
def intensity_before_the_launch(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    if operations / moved > rate / chip["bandwidth"]:
        return "compute", operations / moved
    return ("overhead" if chip["launch"] >= moved / chip["bandwidth"] else "bandwidth"), operations / moved


@wrong("the launch was compared with the bytes' time alone", row=LONGEST)
def launch_against_the_bytes(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    if chip["launch"] >= moved / chip["bandwidth"]:
        return "overhead", operations / moved
    return ("compute" if operations / moved > rate / chip["bandwidth"] else "bandwidth"), operations / moved


@wrong("27 is the reference machine's balance in float32: each chip and dtype has its own", row=HALF_RATE)
def one_balance_for_all(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    if chip["launch"] >= max(moved / chip["bandwidth"], operations / rate):
        return "overhead", operations / moved
    return ("compute" if operations / moved > 27 else "bandwidth"), operations / moved


@wrong(
    "the time of the bytes is eight times too long: the chip's bandwidth is in bytes, not in bits",
    row=LONGEST,
)
def bits_in_the_time(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    return answer(operations, 8 * moved, rate, chip)[0], operations / moved


@wrong("the launch takes longest here", row=EVERY_CHIP)
def above_a_megabyte(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    if moved < 1e6:
        return "overhead", operations / moved
    return answer(operations, moved, rate, chip | {"launch": 0.0})


@wrong('it is always "compute"', row=LONGEST)
def products_compute(rows, inner, columns, dtype, chip):
    operations, moved, _ = counts(rows, inner, columns, dtype, chip)
    return "compute", operations / moved


@wrong("bytes and operations take equally long here, and bandwidth comes before compute", row=EQUAL)
def the_last_of_equal_times(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    times = [
        ("overhead", chip["launch"]),
        ("bandwidth", moved / chip["bandwidth"]),
        ("compute", operations / rate),
    ]
    return sorted(times, key=lambda pair: pair[1])[-1][0], operations / moved


@wrong("launch and bytes take equally long here, and overhead comes before bandwidth", row=EQUAL)
def a_launch_that_is_longer(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    moving, computing = moved / chip["bandwidth"], operations / rate
    if chip["launch"] > max(moving, computing):
        return "overhead", operations / moved
    return ("compute" if computing > moving else "bandwidth"), operations / moved


@wrong("the launch was compared with the operations' time alone", row=LONGEST)
def launch_against_the_operations(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    if chip["launch"] >= operations / rate:
        return "overhead", operations / moved
    return ("compute" if operations / moved > rate / chip["bandwidth"] else "bandwidth"), operations / moved


@wrong("the balance is a rate ÷ the bandwidth, and not the other quotient", row=LONGEST)
def the_balance_upside_down(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    if chip["launch"] >= max(moved / chip["bandwidth"], operations / rate):
        return "overhead", operations / moved
    return ("compute" if operations / moved > chip["bandwidth"] / rate else "bandwidth"), operations / moved


@wrong("the input `chip` was changed", row=FLOAT32_INTENSITY)
def takes_the_rate_away(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    chip["rate"] = rate
    chip.pop("half_rate")
    return answer(operations, moved, rate, chip)


@wrong("the intensity was rounded", row=FLOAT32_INTENSITY)
def to_six_digits(rows, inner, columns, dtype, chip):
    name, intensity = answer(*counts(rows, inner, columns, dtype, chip), chip)
    return name, round(intensity, 6)


@wrong("not the operations ÷ the bytes that are read and written", row=FLOAT32_INTENSITY)
def no_more_than_the_balance(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    name, intensity = answer(operations, moved, rate, chip)
    return name, min(intensity, rate / chip["bandwidth"])


@wrong("launch and operations take equally long here, and overhead comes before compute", row=EQUAL)
def compute_before_an_equal_launch(rows, inner, columns, dtype, chip):
    operations, moved, rate = counts(rows, inner, columns, dtype, chip)
    moving, computing = moved / chip["bandwidth"], operations / rate
    if computing > moving:
        return ("compute" if computing >= chip["launch"] else "overhead"), operations / moved
    return ("overhead" if chip["launch"] >= moving else "bandwidth"), operations / moved


REFERENCE = {"launch": 5e-6, "bandwidth": 300e9, "rate": 8.1e12, "half_rate": 65e12}


@wrong("those are figures of the reference machine: the chip's own are in `chip`", row=HALF_RATE)
def by_the_reference_machine(rows, inner, columns, dtype, chip):
    return answer(*counts(rows, inner, columns, dtype, REFERENCE), REFERENCE)


@wrong("those are figures of the reference machine: the chip's own are in `chip`", row=HALF_RATE)
def its_rates(rows, inner, columns, dtype, chip):
    return answer(*counts(rows, inner, columns, dtype, REFERENCE), chip)


@wrong("those are figures of the reference machine: the chip's own are in `chip`", row=EVERY_CHIP)
def its_bandwidth(rows, inner, columns, dtype, chip):
    chip = chip | {"bandwidth": REFERENCE["bandwidth"]}
    return answer(*counts(rows, inner, columns, dtype, chip), chip)


@wrong("those are figures of the reference machine: the chip's own are in `chip`", row=EVERY_CHIP)
def its_launch(rows, inner, columns, dtype, chip):
    chip = chip | {"launch": REFERENCE["launch"]}
    return answer(*counts(rows, inner, columns, dtype, chip), chip)
