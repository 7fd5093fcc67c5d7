"""Two modules with saved buffers: a table that is fixed, and statistics that are updated."""

import torch

from devlab.checks import expect
from devlab.lessons.lesson_05_buffers.base import Made, another, lesson

causal_mask = lesson.exercise(
    "CausalMask",
    signature="class CausalMask(max_length)",
    facts=("B1", "B2", "B3", "B4", "L4"),
    hints=(
        "Make the whole triangle once, in `__init__`, and only cut from it in `forward`. What must it be "
        "so that `.to` finds it?",
        '`self.register_buffer("mask", table)` registers a tensor under a name; from then on `self.mask` '
        "is the tensor, wherever the module has moved.",
        "`torch.ones(n, n, dtype=torch.bool).triu(1)` is True above the diagonal. `forward` returns "
        "`self.mask[:time, :time]`, where `time = x.shape[1]`.",
    ),
)


def _future(time: int) -> torch.Tensor:
    steps = torch.arange(time)
    return steps[None, :] > steps[:, None]


@causal_mask.row("`mask` is a buffer, and forward reads it")
def mask_is_a_buffer(trial):
    made = Made(trial, 6)
    made.buffer("mask")
    made.require_only_buffers()
    made.to(trial.device).require_read("mask", trial.randn(2, 5, 3), "the mask")


@causal_mask.row("it moves with the model, at any time")
def mask_moves(trial):
    made = Made(trial, 7)
    made.to(trial.device).require_on(trial.device, "mask")
    x = trial.randn(2, 5, 3, seed=trial.seeds[0])
    expect.tensor(made(x), _future(5), trial.device, "the mask")
    # A first batch elsewhere must leave nothing behind that a later one meets.
    elsewhere = another(trial)
    made.to(elsewhere)
    expect.tensor(made(x.to(elsewhere)), _future(5), elsewhere, "the mask")
    made.to(trial.device).require_on(trial.device, "mask")
    expect.tensor(made(x), _future(5), trial.device, "the mask after two moves")
    made.require_stays("mask", x.to(elsewhere))


@causal_mask.row("it is saved with the model")
def mask_is_saved(trial):
    made = Made(trial, 5).to(trial.device)
    made.require_saved("mask")
    made(trial.randn(3, 4, 2))
    made.require_saved("mask")


@causal_mask.row("True for the future, at every length")
def mask_is_right(trial):
    made = Made(trial, 9).to(trial.device)
    inputs = [trial.randn(2, time, 4, seed=trial.seeds[0]) for time in (3, 9, 1)]
    inputs += [
        trial.randint(0, 50, (4, 7), seed=trial.seeds[1]),
        trial.randn(3, 5, 2, 4, seed=trial.seeds[2], dtype=torch.float16),
        trial.randn(8, 2, 3, seed=trial.seeds[2]).transpose(0, 1),
    ]
    for x in inputs:
        expect.tensor(made(x), _future(x.shape[1]), trial.device, "the mask")
    table, future = made.buffer("mask").detach().cpu().squeeze(), _future(9)
    if table.shape != (9, 9) or not any(torch.equal(table.bool(), one) for one in (future, ~future)):
        headline = "the buffer `mask` does not hold the triangle: is it made anew at every call?"
        expect.fail(headline, "the whole triangle, 9 by 9, made once", table)


running_mean = lesson.exercise(
    "RunningMean",
    signature="class RunningMean(n)",
    facts=("B1", "B2", "B3", "L2", "L4"),
    hints=(
        "Two buffers: `mean`, n zeros, and `count`, a single integer: `torch.zeros((), "
        "dtype=torch.long)`. How far does one new row pull the mean of `count` rows?",
        "With `count` brought up to date, the mean moves by `(x - mean).sum(0) / count`. `self.training` "
        "says which mode the module is in.",
        "`self.mean = ...` puts a new tensor in the old one's place. `self.mean += ...`, `add_` and "
        "`copy_` change the tensor that is there. `with torch.no_grad():` keeps the update out of the "
        "graph.",
    ),
)


def _rows(trial, count: int, n: int, seed: int) -> torch.Tensor:
    """Return rows whose columns have different means, none of them 0."""
    rows = trial.randn(count, n, seed=seed, on=torch.device("cpu")) + torch.arange(1.0, n + 1)
    return rows.to(trial.device)


def _mean(seen: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(seen).double().mean(0).float()


def _expect_step(made: Made, x: torch.Tensor, seen: list[torch.Tensor]) -> None:
    """Run x through the module in training mode; expect the state and result that belong to all `seen`.

    Those are the inputs so far, on the CPU; x joins them.
    """
    seen.append(x.cpu())
    rows, exact = sum(len(one) for one in seen), _mean(seen)
    got = made(x)
    mean, count = made.buffer("mean"), made.buffer("count")
    expect.tensor(mean, exact.to(mean.dtype), x.device, f"`mean` after {rows} rows", within=1e-4)
    expect.device(count, x.device, "`count` after forward")
    expect.equal(count.item(), rows, f"`count` is wrong after {rows} rows")
    expect.tensor(got, seen[-1] - exact, x.device, "the result", within=1e-4)


def _expect_graph(made: Made, x: torch.Tensor) -> None:
    """Expect a result through which the layers before this one learn, as if the mean were a number."""
    scale = torch.full((), 2.0, device=x.device, requires_grad=True)
    got = made(x * scale)
    made.buffer("mean")  # which must not ask for a gradient
    if isinstance(got, torch.Tensor) and not got.requires_grad:
        mode = "" if made.module.training else " in eval mode"
        headline = f"the result{mode} is cut off from x: no layer before this one can learn"
        expect.fail(headline, "a result with the graph of x", "requires_grad=False")
    weights = torch.arange(1.0, x.numel() + 1).reshape(x.shape).to(x.device)
    try:
        (got * weights).sum().backward()
    except RuntimeError as error:  # a graph whose tensors the answer has changed
        expect.fail("no backward leads through the result", "a gradient for the layer before", str(error))
    if scale.grad is None:
        expect.fail("no gradient comes through the result", "a gradient for the layer before", "None")
    wanted = (x * weights).sum().detach()
    if not torch.isclose(scale.grad, wanted, rtol=1e-3):
        headline = "the gradient goes through the mean, too: is the update part of the graph?"
        expect.fail(headline, f"{wanted.item():.4g} for the layer before", f"{scale.grad.item():.4g}")


@running_mean.row("`mean` and `count` are saved buffers")
def statistics_are_buffers(trial):
    made = Made(trial, 3)
    mean, count = made.buffer("mean"), made.buffer("count")
    made.require_only_buffers()
    if mean.shape != (3,):
        expect.fail("`mean` does not have one element a column", "shape [3]", mean)
    if not mean.is_floating_point():
        expect.fail(f"`mean` is {mean.dtype}, not a floating dtype", "a floating tensor", mean)
    if count.is_floating_point() or count.is_complex() or count.dtype is torch.bool:
        expect.fail(f"`count` is {count.dtype}, not an integer dtype", "an integer tensor", count)
    if torch.iinfo(count.dtype).bits < 32:
        most = torch.iinfo(count.dtype).max
        expect.fail(
            f"`count` is {count.dtype}, which ends at {most}", "an integer dtype for many rows", count
        )
    if count.dim():
        expect.fail("`count` is not zero-dimensional", "shape []", count)
    expect.equal(count.item(), 0, "`count` does not begin at 0")
    made.require_saved("mean", "count")
    made.to(trial.device).require_on(trial.device, "mean", "count")


@running_mean.row("the exact mean of all rows seen")
def mean_is_exact(trial):
    for seed, n, batches in zip(trial.seeds, (3, 1), ((4, 1, 7), (1, 6)), strict=False):
        made = Made(trial, n).to(trial.device)
        seen = []
        for batch, rows in enumerate(batches):
            _expect_step(made, _rows(trial, rows, n, seed + 10 * batch), seen)
    _expect_step(made, seen[0].to(trial.device), seen)  # rows that come again count again


@running_mean.row("both are updated in place")
def updated_in_place(trial):
    made = Made(trial, 4).to(trial.device)
    # What is held from before must show what came after: a tensor in the same memory.
    held = {name: made.buffer(name) for name in ("mean", "count")}
    seen = []
    for batch, seed in enumerate(trial.seeds[1:]):
        _expect_step(made, _rows(trial, 3 + batch, 4, seed), seen)
        for name, before in held.items():
            now = made.buffer(name)
            if not torch.equal(before.detach().cpu(), now.detach().cpu()):
                expect.fail(
                    f"`{name}` was replaced by a new tensor, not updated in place",
                    f"the tensor that `{name}` was before forward, with the new content",
                    now,
                )
    _expect_graph(made, _rows(trial, 3, 4, trial.seeds[0]))
    made.buffer("mean")  # which by now must not ask for a gradient


@running_mean.row("eval mode leaves both alone")
def eval_leaves_alone(trial):
    made = Made(trial, 3).to(trial.device)
    seen = []
    _expect_step(made, _rows(trial, 5, 3, trial.seeds[0]), seen)
    made.module.eval()
    x = _rows(trial, 4, 3, trial.seeds[1])
    got = made(x)
    moved = (made.buffer("mean").detach().cpu() - _mean(seen)).abs().max().item()
    if made.buffer("count").item() != 5 or not moved < 1e-4:
        words = "`mean` and `count` as training left them"
        expect.fail("eval mode changed the statistics", words, "other values")
    expect.tensor(got, x.cpu() - _mean(seen), trial.device, "the result in eval mode", within=1e-4)
    _expect_graph(made, x)
    made.module.train()
    _expect_step(made, _rows(trial, 2, 3, trial.seeds[2]), seen)


@running_mean.row("a move or a reload in between changes nothing")
def goes_on(trial):
    elsewhere = another(trial)
    made = Made(trial, 3).to(elsewhere)
    seen = []
    _expect_step(made, _rows(trial, 5, 3, trial.seeds[0]).to(elsewhere), seen)
    made.to(trial.device)
    _expect_step(made, _rows(trial, 2, 3, trial.seeds[1]), seen)
    made.require_saved("mean", "count")
    saved = {name: value.clone() for name, value in made.module.state_dict().items()}
    resumed = Made(trial, 3).to(trial.device)
    resumed.module.load_state_dict(saved)
    _expect_step(resumed, _rows(trial, 4, 3, trial.seeds[2]), seen)
    with torch.no_grad():  # the mode decides, not whether graphs are made
        _expect_step(resumed, _rows(trial, 3, 3, trial.seeds[0]), seen)
    resumed.module.eval()
    resumed.require_stays("mean", _rows(trial, 2, 3, trial.seeds[1]).to(elsewhere))
