"""Many products in one launch."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_07_asynchrony import lesson

# The matrix products among PyTorch's operators, as a watch names their launches.
PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "dot", "mv", "addmv", "addbmm"})

batched = lesson.exercise(
    "batched(xs, w)",
    ("Y1", "J1", "V1", "V3", "V4"),
    "A loop pays for a launch at every turn. Which one operation takes all the matrices at once?",
    "`@` treats every dimension but the last two as a batch.",
    "`return xs @ w`: (n, a, b) times (b, c) gives (n, a, c).",
)


def _multiply_in_a_loop(xs: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    wide = torch.promote_types(xs.dtype, torch.float32)
    return torch.stack([x @ w.to(wide) for x in xs.to(wide)]).to(xs.dtype)


EXACT = {torch.float32: 1e-4, torch.float64: 1e-12}  # by which a result of that dtype may be off


def _expect_digits(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Say so where a result is as far off as a narrower dtype on the way makes it."""
    off, largest = (float(one.detach().cpu().double().abs().max()) for one in (got.cpu() - wanted, wanted))
    if off > EXACT.get(got.dtype, off):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            if off <= 4 * torch.finfo(dtype).eps * largest:
                headline = f"digits were lost: the result is no more exact than {dtype}"
                expect.fail(headline, f"{got.dtype} throughout", f"a number that is off by {off:.2g}")


def _expect_product(trial, xs: torch.Tensor, w: torch.Tensor, within: float = EXACT[torch.float32]) -> None:
    got, wanted = trial.call(xs, w), _multiply_in_a_loop(xs.cpu(), w.cpu())
    formed = isinstance(got, torch.Tensor) and not got.is_meta
    if formed and (got.shape, got.dtype) == (wanted.shape, wanted.dtype):
        _expect_digits(got, wanted)
    expect.tensor(got, wanted, xs.device, within=within)


@batched.row("what the loop would give, stacked")
def as_the_loop(trial):
    for (n, a, b, c), seed in zip(((5, 3, 4, 2), (1, 2, 7, 3), (3, 3, 3, 3)), trial.seeds, strict=True):
        xs, w = trial.randn(n, a, b, seed=seed), trial.randn(b, c, seed=seed + 50)
        _expect_product(trial, xs, w)
    # In half precision, too: every PyTorch from 2.11 on multiplies it on the CPU.
    _expect_product(trial, xs.half(), w.half(), 2e-2)
    _expect_product(trial, xs.bfloat16(), w.bfloat16(), 0.1)
    if cases.holds(trial.device, torch.float64):
        _expect_product(trial, xs.double() + 1e-9, w.double() - 1e-9, EXACT[torch.float64])
    given = [one.detach().requires_grad_() for one in (xs, w)]
    ours = lambda one: _multiply_in_a_loop(one, w.cpu()), lambda one: _multiply_in_a_loop(xs.cpu(), one)
    got = trial.call(*given)
    for leaf, name, loop in zip(given, ("xs", "w"), ours, strict=True):
        verbs.flows(got, leaf, loop, name, cut="the products have lost their graph", within=1e-2)


@batched.row("views and transposed weights")
def views(trial):
    w = trial.randn(3, 6, seed=trial.seeds[1]).t()
    _expect_product(trial, trial.randn(4, 5, 6, seed=trial.seeds[0])[::2, 1:], w)


@batched.row("one matrix product, however many matrices", only="accelerator")
def one_product(trial):
    asked, launches = "a few, however many matrices", {}
    for n in (2, 30):
        xs, w = trial.randn(n, 3, 4, seed=trial.seeds[0]), trial.randn(4, 2, seed=trial.seeds[1])
        _, log = trial.watched(xs, w)
        names = [launch.operator for launch in log.events.launches]
        launches[n] = len(names)
        count = sum(name in PRODUCTS for name in names)
        if count != 1:
            headline = f"{count} matrix products were launched for {n} matrices, and one is asked"
            if not count:
                headline = f"no matrix product was launched on {trial.device}: did it run elsewhere?"
                if any(copy.target == "cpu" for copy in log.events.transfers):
                    headline = f"the product was computed on the CPU: a tensor left {trial.device}"
            expect.fail(headline, "1 matrix product", ", ".join(names) or "no launch")
    few, many = launches.values()
    grow = f", {many} for 30: launches must not grow with n" * (few < many)
    expect.that(max(few, many) < 7, f"{few} launches for 2 matrices{grow}", asked, ", ".join(names))
