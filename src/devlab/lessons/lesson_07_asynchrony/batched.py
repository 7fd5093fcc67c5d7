"""Many products in one launch."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_07_asynchrony import lesson

# The matrix products among PyTorch's operators, as a watch names their launches.
PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "dot", "mv", "addmv", "addbmm"})

batched = lesson.exercise(
    "batched",
    signature="batched(xs, w)",
    facts=("Y1", "V1", "V3", "V4"),
    hints=(
        "A loop pays for a launch at every turn. Which one operation takes all the matrices at once?",
        "`@` treats every dimension but the last two as a batch.",
        "`return xs @ w`: (n, a, b) times (b, c) gives (n, a, c).",
    ),
)


@batched.row("what the loop would give, stacked")
def as_the_loop(trial):
    for (n, a, b, c), seed in zip(((5, 3, 4, 2), (1, 2, 7, 3), (3, 3, 3, 3)), trial.seeds, strict=True):
        xs, w = trial.randn(n, a, b, seed=seed), trial.randn(b, c, seed=seed + 50)
        wanted = torch.stack([x @ w.cpu() for x in xs.cpu()])
        expect.tensor(trial.call(xs, w), wanted, trial.device, within=1e-4)
    # In half precision, too: every PyTorch from 2.11 on multiplies it on the CPU.
    wanted = torch.stack([x @ w.cpu().half().float() for x in xs.cpu().half().float()]).half()
    expect.tensor(trial.call(xs.half(), w.half()), wanted, trial.device, within=2e-2)
    if has_float64(trial.device):
        wide = xs.double() + 1e-9, w.double() - 1e-9
        wanted = torch.stack([x @ wide[1].cpu() for x in wide[0].cpu()])
        expect.tensor(trial.call(*wide), wanted, trial.device, within=1e-12)
    given = [one.detach().requires_grad_() for one in (xs, w)]
    got = trial.call(*given)
    if not (isinstance(got, torch.Tensor) and got.requires_grad):
        expect.fail("the products have lost their graph", "a result with the graph of xs and w", got)
    got.square().sum().backward()
    theirs = [one.detach().cpu().requires_grad_() for one in (xs, w)]
    torch.stack([x @ theirs[1] for x in theirs[0]]).square().sum().backward()
    for name, mine, its in zip(("xs", "w"), given, theirs, strict=True):
        if mine.grad is None:
            expect.fail(f"no gradient reaches {name}", f"a gradient for {name}", "None")
        expect.values(mine.grad, its.grad, f"the gradient of {name}", within=1e-2)


@batched.row("views and transposed weights")
def views(trial):
    xs, w = trial.randn(4, 5, 6, seed=trial.seeds[0])[::2, 1:], trial.randn(3, 6, seed=trial.seeds[1]).t()
    wanted = torch.stack([x @ w.cpu() for x in xs.cpu()])
    expect.tensor(trial.call(xs, w), wanted, trial.device, within=1e-4)


@batched.row("one matrix product, however many matrices", only="accelerator")
def one_product(trial):
    counts = {}
    for n in (2, 30):
        xs, w = trial.randn(n, 3, 4, seed=trial.seeds[0]), trial.randn(4, 2, seed=trial.seeds[1])
        _, log = trial.watched(xs, w)
        names = [launch.operator for launch in log.events.launches]
        counts[n] = len(names)
        count = sum(name in PRODUCTS for name in names)
        if count != 1:
            headline = f"{count} matrix products were launched for {n} matrices, and one is asked"
            if not count:
                headline = f"no matrix product was launched on {trial.device}: did it run elsewhere?"
                if any(copy.target == "cpu" for copy in log.events.transfers):
                    headline = f"the product was computed on the CPU: a tensor left {trial.device}"
            expect.fail(headline, "1 matrix product", ", ".join(names) or "no launch")
    if counts[2] >= 7:
        expect.fail(f"{counts[2]} launches for 2 matrices", "a few, however many matrices", f"{counts[2]}")
    if counts[30] > counts[2] + 5:
        headline = f"{counts[2]} launches for 2 matrices, {counts[30]} for 30: launches must not grow with n"
        expect.fail(headline, "a few, however many matrices", ", ".join(names))
