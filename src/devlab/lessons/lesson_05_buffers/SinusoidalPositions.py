"""A module whose table is made once, moves with it, and is not saved."""

import numpy
import torch

from devlab.checks import expect
from devlab.lessons.lesson_05_buffers import Made, another, floats_of, lesson

positions = lesson.exercise(
    "SinusoidalPositions",
    signature="class SinusoidalPositions(n, d)",
    facts=("B3", "B5", "E4", "E5"),
    hints=(
        "The table depends on n and d alone, so it is made once, in `__init__`, and need not be saved: "
        "`register_buffer` has a third argument for that.",
        "`angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)` has the shape (n, d /"
        " 2). `table[:, 0::2]` are the even columns, `table[:, 1::2]` the odd ones.",
        'Register with `self.register_buffer("table", table, persistent=False)`, and return '
        "`x + self.table[: x.shape[1]].to(x.dtype)`: a float32 table added to a float16 x gives float32.",
    ),
)

# Good answers compute the angles by different roads, in float32.
CLOSE = 1e-4


def _angles(time: int, d: int, exponent: numpy.ndarray | None = None, base: float = 1e4) -> numpy.ndarray:
    """Return the angle of each step and column; the exponent of column c is that of its pair, by default."""
    column = numpy.arange(d)
    exponent = (column - column % 2) / d if exponent is None else exponent
    return numpy.arange(time)[:, None] / base**exponent


def _waves(angles: numpy.ndarray, cosine: numpy.ndarray | None = None) -> torch.Tensor:
    """Return the sines of the angles, and the cosines in the columns marked; in every other by default."""
    cosine = numpy.arange(angles.shape[1]) % 2 if cosine is None else cosine
    return torch.from_numpy(numpy.where(cosine, numpy.cos(angles), numpy.sin(angles)))


def _encoding(time: int, d: int) -> torch.Tensor:
    return _waves(_angles(time, d))


def _slips(batch: int, time: int, d: int) -> dict[str, expect.Slip]:
    """Return what the usual slips give in place of the encoding, by the words for each."""
    column, half = numpy.arange(d), d // 2
    swapped, side = 1 - column % 2, column >= half
    beside = (column % half) * 2 / d
    exponents = {
        "the exponent is c / d in column c: columns 2i and 2i + 1 are to share 2i / d": column / d,
        "the exponent is i / d, and not 2i / d": (column // 2) / d,
        "the exponent is 4i / d, and not 2i / d": (column - column % 2) * 2 / d,
        "the exponent lacks the division by d": (column - column % 2).astype(float),
        "the step was divided by 10000 in every column: the exponent 2i / d is missing": numpy.ones(d),
        "the angle is the step itself in every column: it was not divided by 10000^(2i / d)": numpy.zeros(d),
    }
    found: dict[str, expect.Slip] = {
        "sine and cosine have changed places": lambda: _waves(_angles(time, d), swapped),
        "the sines fill the first half of the columns and the cosines the second: they must alternate": (
            lambda: _waves(_angles(time, d, beside), side)
        ),
        "the cosines fill the first half of the columns and the sines the second: they must alternate": (
            lambda: _waves(_angles(time, d, beside), ~side)
        ),
        "every column holds a sine": lambda: _waves(_angles(time, d), numpy.zeros(d)),
        "every column holds a cosine": lambda: _waves(_angles(time, d), numpy.ones(d)),
        "only the even columns were filled: the odd ones hold 0": (
            lambda: _encoding(time, d) * torch.from_numpy(swapped)
        ),
        "the steps are counted from 1, and the first one is step 0": lambda: _encoding(time + 1, d)[1:],
        "the steps were counted along the batch, and not along the time": lambda: _encoding(batch, d)[
            :, None
        ],
        "every step has the encoding of step 0": lambda: _encoding(1, d).expand(time, d),
        "nothing was added to x": lambda: torch.zeros(time, d),
        "the encoding was added twice": lambda: 2 * _encoding(time, d),
        "the encoding was subtracted from x": lambda: -_encoding(time, d),
        "the angle is in degrees, and torch.sin takes radians": lambda: _waves(
            _angles(time, d) * 57.29577951308232
        ),
    }
    for words, exponent in exponents.items():
        found[words] = lambda exponent=exponent: _waves(_angles(time, d, exponent))
        found[f"sine and cosine have changed places, and {words}"] = lambda exponent=exponent: _waves(
            _angles(time, d, exponent), swapped
        )
    words = "the step was multiplied by 10000^(2i / d), and not divided by it"
    rates = 10000 ** (torch.arange(0, d, 2) / d)  # in float32, whose rounding shows in angles so large
    found[words] = lambda: _waves((torch.arange(time)[:, None] * rates).repeat_interleave(2, 1).numpy())
    words = "log10 was taken where the natural logarithm belongs: the base is e^4, and not 10000"
    found[words] = lambda: _waves(_angles(time, d, base=numpy.exp(4.0)))
    for base in (10, 100, 1000, 100_000, 1_000_000):
        words = f"the base is {base}, and not 10000"
        found[words] = lambda base=base: _waves(_angles(time, d, base=base))
    return found


def _mistaken(x: torch.Tensor, n: int) -> dict[str, expect.Slip]:
    """Return what the usual slips make of x in a module for n steps, by the words for each."""
    batch, time, d = x.shape
    wide = x.detach().cpu().double()
    whole = {
        "the encoding came back alone: x was not added": lambda: _encoding(time, d),
        "the encoding came back alone, for each row of the batch: x was not added": (
            lambda: _encoding(time, d).expand(batch, time, d)
        ),
        "x was multiplied by the encoding": lambda: wide * _encoding(time, d),
        "x was multiplied by the square root of d first": lambda: wide * d**0.5 + _encoding(time, d),
        "the last rows of the table were added, and not the first": lambda: wide + _encoding(n, d)[-time:],
    }
    added = {words: (lambda slip=slip: wide + slip()) for words, slip in _slips(batch, time, d).items()}
    return added | whole


def _expect_encoded(results: list[tuple[int, torch.Tensor, object]]) -> None:
    """Expect of each (n, x, result) that the result is x plus its encoding.

    One size alone can make two slips look alike, so what is named gives all the wrong results.
    """
    asked = "sin(t / 10000^(2i / d)) in column 2i, its cosine in column 2i + 1"
    wrong, known = [], None
    for n, x, got in results:
        expect.kind(got, torch.Tensor, "a tensor")
        wanted = x.cpu().double() + _encoding(*x.shape[1:])
        if expect.is_alike(got, wanted, CLOSE):
            continue
        wrong.append(got)
        found = [
            words
            for words, slip in _mistaken(x, n).items()
            if expect.is_alike(got, made := slip(), CLOSE) and not expect.is_alike(made, wanted, CLOSE)
        ]
        known = [words for words in (found if known is None else known) if words in found]
    if known:
        expect.fail(known[0], asked, wrong[0])
    for _, x, got in results:
        expect.tensor(got, (x.cpu().double() + _encoding(*x.shape[1:])).float(), x.device, within=CLOSE)


def _added(made: Made, x: torch.Tensor) -> torch.Tensor:
    """Return a copy of what forward gives for x, on the CPU."""
    got = made(x)
    expect.kind(got, torch.Tensor, "a tensor")
    expect.device(got, x.device)
    return got.detach().cpu().clone()


@positions.row("`table` is a buffer, and forward reads it")
def table_is_a_buffer(trial):
    made = Made(trial, 6, 4)
    made.buffer("table")
    made.require_only_buffers()
    made.to(trial.device).require_read("table", trial.randn(2, 5, 4), "the result")


@positions.row("it moves with the model, at any time")
def table_moves(trial):
    made = Made(trial, 7, 4)
    made.to(trial.device).require_on(trial.device, "table")
    x = trial.randn(2, 5, 4, seed=trial.seeds[0])
    before = _added(made, x)
    elsewhere = another(trial)
    for device in (elsewhere, trial.device):
        made.to(device).require_on(device, "table")
        expect.tensor(made(x.to(device)), before, device, "the result after a move")
    made.require_stays("table", x.to(elsewhere))


@positions.row("it stays out of the state_dict")
def table_is_not_saved(trial):
    made = Made(trial, 5, 6).to(trial.device)
    made(trial.randn(2, 3, 6))
    saved = list(made.module.state_dict())
    if "table" in saved:
        expect.fail(
            "`table` is saved with the model, and it can be made anew from n and d",
            'no "table" in the state_dict',
            saved,
        )


@positions.row("sines in even columns, cosines in odd")
def encoding_is_right(trial):
    sizes = [(9, 6, 4, 2), (31, 10, 17, 1), (1, 2, 1, 2)]
    results = []
    for seed, (n, d, time, batch) in zip(trial.seeds, sizes, strict=True):
        made = Made(trial, n, d).to(trial.device)
        table = made.buffer("table")
        if not table.is_floating_point():
            headline = f"the buffer `table` is {table.dtype}, which holds no sines"
            expect.fail(headline, "a floating dtype", table)
        x = trial.randn(batch, time, d, seed=seed)
        results.append((n, x, made(x)))
    _expect_encoded(results)
    n, d, time, batch = sizes[1]
    made = Made(trial, n, d).to(trial.device)
    table = made.buffer("table").detach().cpu().squeeze()
    if table.shape != (n, d) or not torch.allclose(table.double(), _encoding(n, d), atol=1e-2):
        headline = "the buffer `table` does not hold the pattern, although forward adds the right one"
        expect.fail(headline, f"the whole pattern, {n} by {d}, made once", table)
    x = trial.randn(3, d, n, seed=seed).transpose(1, 2)
    _expect_encoded([(n, x, made(x))])
    x = trial.randn(batch, time, d, seed=seed).requires_grad_()
    with torch.no_grad():
        made(x)
    got = made(x)  # which a call without a graph must not spoil
    if isinstance(got, torch.Tensor) and not got.requires_grad:
        headline = "the result is cut off from x: no layer before this one can learn"
        expect.fail(headline, "a result with the graph of x", "requires_grad=False")


@positions.row("the result has x's dtype")
def encoding_keeps_dtype(trial):
    made = Made(trial, 8, 4).to(trial.device)
    before = made.buffer("table").dtype
    floats = floats_of(trial.device)
    # Sums of at least 2, so that good roads differ by one rounding, not by cancelled digits.
    plain = trial.randn(2, 5, 4, seed=trial.seeds[0]).abs() + 3
    # What is added, right or wrong, is asked in another row; here it must be the same for every dtype.
    added = _added(made, plain)
    known = added.shape == plain.shape and expect.is_alike(_added(made, plain + 1), added + 1, CLOSE)
    for dtype in floats:
        x = plain.to(dtype)
        got = made(x)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.dtype != dtype:
            headline = f"the result is {got.dtype} for an x of {dtype}"
            expect.fail(headline, f"x's own dtype, {dtype}", got)
        # A table that one batch left in fewer digits would spoil the next one.
        table = made.buffer("table")
        if table.dtype != before:
            expect.fail(f"forward left `table` in {table.dtype}", f"`table` in {before}, as before", table)
        if known:
            wanted = (x.cpu().double() + (added.double() - plain.cpu())).to(dtype)
            expect.tensor(got, wanted, x.device, within=max(CLOSE, 8 * torch.finfo(dtype).eps))
    if torch.float64 in floats and known:
        # The table may have float32's digits. x has its own, and so many only float64 holds.
        x = plain.double() + 1e6
        wanted = x.cpu() + (added.double() - plain.cpu())
        got = made(x)
        if torch.equal(got.float().double(), got) and not expect.is_alike(got, wanted, CLOSE):
            headline = "the digits of a float64 x were lost: the sum was rounded to float32"
            expect.fail(headline, "a sum in float64", got)
        expect.tensor(got, wanted, x.device, within=CLOSE)
