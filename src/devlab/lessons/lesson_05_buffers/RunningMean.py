"""A module with saved buffers that each batch updates: the running mean."""

from collections.abc import Callable

import torch

from devlab.checks import expect, verbs
from devlab.checks.probes import Built
from devlab.lessons.lesson_05_buffers import lesson

running_mean = lesson.exercise(
    "RunningMean",
    signature="class RunningMean(n)",
    facts=("B1", "B2", "B3", "L2", "L4"),
    hints=(
        "Register two buffers: `mean`, n zeros, and `count`, a single integer, `torch.zeros((), "
        "dtype=torch.long)`. How far does one new row pull the mean of `count` rows?",
        "Once `count` is up to date, the mean moves by `(x - mean).sum(0) / count`. `self.training` "
        "tells which mode the module is in.",
        "`self.mean = ...` puts a new tensor in the old one's place. `self.mean += ...`, `add_` and "
        "`copy_` change the tensor that is there. `with torch.no_grad():` keeps the update out of the "
        "graph.",
    ),
)


def _rows(trial, count: int, n: int, seed: int) -> torch.Tensor:
    """Return rows whose columns have different means, none of them 0."""
    rows = trial.randn(count, n, seed=seed, on=torch.device("cpu")) + torch.arange(1.0, n + 1)
    return rows.to(trial.device)


def _mean(*seen: torch.Tensor) -> torch.Tensor:
    return torch.cat(seen).double().mean(0).float()


def _before(*seen: torch.Tensor) -> torch.Tensor:
    """Return the mean before the last of these inputs came: at first, zeros."""
    return _mean(*seen[:-1]) if seen[1:] else torch.zeros(seen[0].shape[1])


def _by_steps(seen: tuple[torch.Tensor, ...], weight: Callable[[int, int], float]) -> torch.Tensor:
    """Return the mean after these batches; `weight` takes the rows before a batch, and the batch's own."""
    mean, before = torch.zeros(seen[0].shape[1]), 0
    for one in seen:
        share = weight(before, len(one))
        mean, before = (1 - share) * mean + share * one.mean(0), before + len(one)
    return mean


def _wrong_means(*seen: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what `mean` would be after the usual slips, by the words for each."""
    last, old, rows = seen[-1], _before(*seen), sum(map(len, seen))
    batch, moves = last.mean(0), last - old
    moving = "`mean` is a moving average, in which each new batch has the weight"
    return {
        "the buffer `mean` was not updated in training mode": old,
        "`mean` is the mean of the batches' means: the rows of a small batch count for more there": (
            torch.stack([one.mean(0) for one in seen]).mean(0)
        ),
        "`mean` is the mean of the last batch alone": batch,
        f"{moving} 0.1": _by_steps(seen, lambda *_: 0.1),
        f"{moving} 0.9": _by_steps(seen, lambda *_: 0.9),
        "`mean` is half the old mean and half that of the new batch, whatever their sizes": (old + batch) / 2,
        "`mean` is the sum of all rows: it was not divided by `count`": torch.cat(seen).sum(0),
        "the sum was divided by `count` before `count` was brought up to date": (
            old + moves.sum(0) / (rows - len(last))
        ),
        "the old mean counts once, and not for all the rows it stands for": (old + last.sum(0)) / rows,
        "the batch's mean has the weight of the rows before it, and the old mean that of the batch": (
            _by_steps(seen, lambda before, new: before / (before + new) if before else 1)
        ),
        "the differences were averaged over the batch first, and then divided by `count` as well": (
            old + moves.mean(0) / rows
        ),
        "the differences were summed over all elements, and not over the rows of each column": (
            old + moves.sum() / rows
        ),
        "`mean` is one mean of all elements, and not one for each column": (
            torch.cat(seen).mean().expand_as(old)
        ),
    }


# The arguments are all inputs so far, on the CPU.
mean_of = verbs.Same(
    _mean,
    _wrong_means,
    asked=lambda *seen: f"the mean of all {sum(map(len, seen))} rows so far",
    within=1e-4,
)
# The arguments are an input, the mean before and after it, and the words for the mode.
centred = verbs.Same(
    lambda x, old, mean, mode: x - mean,
    lambda x, old, mean, mode: {
        "the result is x minus the mean from before the update": x - old,
        f"the result{mode} is x minus the mean of this batch alone": x - x.mean(0),
        f"the result{mode} is x itself: no mean was subtracted": x,
        f"the result{mode} is the mean minus x": mean - x,
        f"the result{mode} is x plus the mean": x + mean,
        f"the mean came back{mode}, and not x minus the mean": mean,
    },
    asked="x minus the mean",
    within=1e-4,
)


def _buffers(made: Built, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the two buffers after a forward, which is to leave them where they were."""
    for name in ("mean", "count"):
        buffer = made.buffer(name)
        if buffer.device != device:
            headline = f"forward left `{name}` on {buffer.device}, and it was on {device} before"
            expect.fail(headline, f"`{name}` updated where it is, on {device}", buffer)
    return made.buffer("mean"), made.buffer("count")


def _expect_step(made: Built, x: torch.Tensor, seen: list[torch.Tensor]) -> None:
    """Run x through the module in training mode; expect the state and result that belong to all `seen`.

    Those are the inputs so far, on the CPU; x joins them.
    """
    seen.append(x.cpu())
    rows, exact = sum(map(len, seen)), _mean(*seen)
    got = made(x)
    mean, count = _buffers(made, x.device)
    slips = {
        "`count` was not updated in training mode": rows - len(x),
        "`count` counts the batches, and not the rows": len(seen),
        "`count` holds the rows of the last batch alone": len(x),
        "`count` counts the elements of x, and not its rows": sum(one.numel() for one in seen),
        "`count` counts the columns of x, and not its rows": sum(one.shape[1] for one in seen),
    }
    headline = f"`count` is wrong after {rows} rows"
    verbs.number(int(count), rows, headline, slips, f"{rows} after {rows} rows", what="`count`")
    what = f"`mean` after {rows} rows"
    mean_of.compare(made.trial, mean, *seen, wanted=exact.to(mean.dtype), on=x.device, what=what)
    centred.compare(made.trial, got, x, _before(*seen), exact, "")


def _expect_graph(made: Built, x: torch.Tensor) -> None:
    """Expect a result through which the layers before this one learn, as if the mean were a number."""
    scale = torch.full((), 2.0, device=x.device, requires_grad=True)
    got = made(x * scale)
    made.buffer("mean")  # which must not ask for a gradient
    mode = "" if made.module.training else " in eval mode"
    weights = torch.arange(1.0, x.numel() + 1).reshape(x.shape).to(x.device)
    verbs.flows(
        got,
        scale,
        None,
        cut=f"the result{mode} is cut off from x: no layer before this one can learn",
        broken="backward through the result fails: the graph does not lead back to x",
        none="no gradient of the result reaches x",
        asked="a gradient for the layer before",
        pull=lambda result: (result * weights).sum().backward(),
    )
    wanted = (x * weights).sum().detach()
    if not torch.isclose(scale.grad, wanted, rtol=1e-3):
        headline = "the gradient also passes through the mean: the update is part of the graph"
        expect.fail(headline, f"{wanted.item():.4g} for the layer before", f"{scale.grad.item():.4g}")


@running_mean.row("`mean` and `count` are saved buffers")
def statistics_are_buffers(trial):
    made = Built(trial, 3)
    mean, count = made.buffer("mean"), made.buffer("count")
    made.require_only_buffers()
    if mean.shape != (3,):
        expect.fail("`mean` does not have one element a column", "shape [3]", mean)
    if not mean.is_floating_point():
        expect.fail(f"`mean` is {mean.dtype}, not a floating dtype", "a floating tensor", mean)
    if count.is_floating_point() or count.is_complex() or count.dtype is torch.bool:
        expect.fail(f"`count` is {count.dtype}, not an integer dtype", "an integer tensor", count)
    if torch.iinfo(count.dtype).bits < 32:
        headline = f"`count` is {count.dtype}, which ends at {torch.iinfo(count.dtype).max}"
        expect.fail(headline, "an integer dtype for many rows", count)
    if count.dim():
        expect.fail("`count` is not zero-dimensional", "shape []", count)
    expect.equal(count.item(), 0, "`count` does not begin at 0")
    made.require_saved("mean", "count")
    made.to(trial.device).require_on(trial.device, "mean", "count")


@running_mean.row("the exact mean of all rows seen")
def mean_is_exact(trial):
    for seed, n, batches in zip(trial.seeds, (3, 1), ((4, 1, 7), (1, 6)), strict=False):
        made = Built(trial, n).to(trial.device)
        seen = []
        for batch, rows in enumerate(batches):
            _expect_step(made, _rows(trial, rows, n, seed + 10 * batch), seen)
    got, wanted = made(seen[0].to(trial.device)), _mean(*seen, seen[0])
    mean = made.buffer("mean")
    words = "rows that had come before were left out: every row counts, also when it comes again"
    expect.named(mean, wanted, {words: _mean(*seen)}, "the mean of all rows", within=1e-4)
    expect.tensor(mean, wanted.to(mean.dtype), trial.device, "`mean` after rows that came again", within=1e-4)
    centred.compare(trial, got, seen[0], _mean(*seen), wanted, "", on=trial.device)


@running_mean.row("both are updated in place")
def updated_in_place(trial):
    made = Built(trial, 4).to(trial.device)
    # What is held from before must show what came after: a tensor in the same memory.
    held = {name: made.buffer(name) for name in ("mean", "count")}
    for batch, seed in enumerate(trial.seeds[1:]):
        made(_rows(trial, 3 + batch, 4, seed))
        for (name, before), now in zip(held.items(), _buffers(made, trial.device), strict=True):
            if not torch.equal(before.detach().cpu(), now.detach().cpu()):
                headline = f"`{name}` was replaced by a new tensor, not updated in place"
                asked = f"the tensor that `{name}` was before forward, with the new content"
                expect.fail(headline, asked, now)
            if not now.any():
                expect.fail(f"the buffer `{name}` was not updated in training mode", "other numbers", "zeros")
    _expect_graph(made, _rows(trial, 3, 4, trial.seeds[0]))


@running_mean.row("eval mode leaves both alone")
def eval_leaves_alone(trial):
    made = Built(trial, 3).to(trial.device)
    seen = [_rows(trial, 5, 3, trial.seeds[0])]
    made(seen[0])
    left, count = _state(made)
    made.module.eval()
    x = _rows(trial, 4, 3, trial.seeds[1])
    got = made(x)
    mode = " in evaluation mode"
    _expect_state(made, left, count, mode)
    with torch.no_grad():
        made(x)
    _expect_state(made, left, count, f"{mode}, under torch.no_grad()")
    centred.compare(trial, got, x, _mean(seen[0].cpu()), left.float(), mode, what=f"the result{mode}")
    _expect_graph(made, x)
    made.module.train()
    if count == 5 and expect.is_alike(left, _mean(seen[0].cpu()), 1e-4):
        _expect_step(made, _rows(trial, 2, 3, trial.seeds[2]), [seen[0].cpu()])


def _expect_state(made: Built, left: torch.Tensor, count: int, mode: str) -> None:
    now, counted = _state(made)
    if counted != count or not expect.is_alike(now, left, 1e-4):
        name, before, after = ("count", count, counted) if counted != count else ("mean", left, now)
        expect.fail(f"forward changed `{name}`{mode}", expect.describe(before), after)


def _state(made: Built) -> tuple[torch.Tensor, int]:
    """Return copies of what the two buffers hold."""
    return made.buffer("mean").detach().cpu().clone(), made.buffer("count").item()


def _expect_as_unmoved(made: Built, twin: Built, mistaken: dict[str, expect.Slip], words: str) -> None:
    """Expect the statistics of a twin that was never moved or reloaded, be they right or wrong."""
    mean, count = _state(made)
    wanted, rows = _state(twin)
    expect.named(mean, wanted, mistaken, f"as if nothing had happened: {rows} rows", within=1e-4)
    expect.tensor(mean, wanted.to(mean.dtype), mean.device, f"`mean` {words}", within=1e-4)
    expect.equal(count, rows, f"`count` is wrong {words}")


@running_mean.row("a move or a reload in between changes nothing")
def goes_on(trial):
    elsewhere = trial.other()
    made, twin = Built(trial, 3).to(elsewhere), Built(trial, 3)
    batches = [_rows(trial, count, 3, seed) for count, seed in zip((5, 2, 4), trial.seeds, strict=True)]
    for x, device in zip(batches, (elsewhere, trial.device), strict=False):
        made.to(device)(x.to(device))
        made.require_on(device, "mean", "count")
        twin(x.cpu())
        _expect_as_unmoved(made, twin, {}, "after a move")
    made.require_saved("mean", "count")
    saved = {name: value.clone() for name, value in made.module.state_dict().items()}
    resumed = Built(trial, 3).to(trial.device)
    resumed.module.load_state_dict(saved)
    for module, device in ((resumed, trial.device), (twin, torch.device("cpu"))):
        module(batches[2].to(device))
    since = "after a reload `mean` covers only the rows that came since: the loaded `count` was not used"
    _expect_as_unmoved(resumed, twin, {since: batches[2].cpu().mean(0)}, "after a reload")
    x, before = _rows(trial, 3, 3, trial.seeds[0]), _state(resumed)[0]
    with torch.no_grad():  # the mode decides, not whether graphs are made
        got = resumed(x)
    twin(x.cpu())
    frozen = "in training mode, but under torch.no_grad(), `mean` was not updated"
    _expect_as_unmoved(resumed, twin, {frozen: before}, "under torch.no_grad()")
    centred.compare(trial, got, x, before, _state(resumed)[0].float(), " under torch.no_grad()")
    resumed.module.eval()
    resumed.require_stays("mean", _rows(trial, 2, 3, trial.seeds[1]).to(elsewhere))
