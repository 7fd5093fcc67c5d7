"""From the device to the host: one copy that is safe to read, many losses, a whole data set's outputs."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader

from devlab.checks import expect
from devlab.checks.isolation import seed_generators
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import (
    CPU,
    expect_arrived,
    expect_numbers,
    keep_busy,
    lesson,
    read_at_once,
    times,
)
from devlab.sim import clock
from devlab.watching.watch import watch

read_back = lesson.exercise(
    "read_back",
    signature="read_back(x)",
    facts=("M2", "P4", "P6"),
    hints=(
        "Two steps: start the copy without waiting for it, then wait once, before you return the result. "
        "Which device has to be waited for?",
        '`x.to("cpu", non_blocking=True)` starts the copy. Its content is undefined until '
        "`torch.accelerator.synchronize(x.device)` has returned. On the CPU there is nothing to wait for.",
        'Where `x.device.type == "cpu"`, return x. Else `y = x.to("cpu", non_blocking=True)`, then '
        "`torch.accelerator.synchronize(x.device)`, then `return y`. Without its device, `synchronize()` "
        "waits for the current one.",
    ),
)


@read_back.row("a CPU tensor with x's values")
def values_on_the_cpu(trial):
    dtypes = [torch.float32, torch.float16, torch.int64, torch.bool]
    dtypes += [torch.float64] if has_float64(trial.device) else []
    for place, dtype in enumerate(dtypes):
        x = (3 * trial.randn(5, 3, seed=trial.seeds[place % 3])).to(dtype)
        if dtype.itemsize == 8:  # digits that a third dtype on the way would lose
            x = x + 2**53 if dtype is torch.int64 else x / 3
        got, wanted = trial.call(x), x.cpu().clone()
        early = {
            "the result is all zeros, as memory is before a copy arrives: it was read too early": 0 * wanted
        }
        expect.named(got, wanted, early, "x's values")
        expect.lost_digits(got, wanted, wanted)
        expect.tensor(got, wanted, CPU, within=0.0)
    first, second = (trial.randn(5, 3, seed=seed) for seed in trial.seeds[:2])
    got = trial.call(first)
    trial.call(second)  # what one call has returned is not the next one's to write into
    expect.tensor(got, first.cpu().clone(), CPU, "the first result, after a second call")
    x = trial.randn(6, 4, seed=trial.seeds[0])
    for view in (x.t()[1:, ::2], x[2, 3], x[:0], x[:1].expand(3, 4)):
        expect.tensor(trial.call(view), view.cpu().clone(), CPU)


@read_back.row("safe to read at once")
def safe_to_read(trial):
    for seed in trial.seeds:
        x = trial.randn(40, 30, seed=seed)
        wanted = x.cpu().clone()
        keep_busy(trial.device)
        got, seen, _ = read_at_once(trial, x)
        expect.kind(got, torch.Tensor, "a tensor")
        expect_arrived(trial, got, seen, wanted, "the result")
        expect.tensor(seen, wanted, CPU)
    if trial.device.type == "sim":
        keep_busy(trial.device)
        # What is queued where x was made may still write into it.
        due = clock.current.queues[trial.device.index].free_at
        trial.call(x, changes=True)
        if clock.now() < due:
            headline = "x was copied before the work that is queued ahead on its device was done"
            asked = "a copy in the current stream, or in one that waits for it"
            expect.fail(headline, asked, "a copy beside that work, which may still write into x")


@read_back.row("one copy, for which the host need not wait", only="accelerator")
def copy_does_not_block(trial):
    x = trial.randn(40, 30, seed=trial.seeds[0])
    _, log = trial.watched(x)
    for transfer in log.events.transfers:
        asked = "a non-blocking copy, then a wait of your own"
        if not transfer.non_blocking:
            expect.fail("the copy itself blocks: non_blocking was not asked for", asked, transfer.manner)
        if transfer.blocking and trial.device.type != "mps":
            headline = "the copy blocks: it goes into memory that is not pinned"
            expect.fail(headline, asked, transfer.manner)
    if log.transfers != 1:
        headline = f"{times(log.transfers, 'transfer')}, where one is enough"
        expect.fail(headline, "one copy to cpu", str(log.transfers))


fetch_losses = lesson.exercise(
    "fetch_losses",
    signature="fetch_losses(losses)",
    facts=("R1", "R4", "R5"),
    hints=(
        "Each `.item()` is a journey of its own, and the host waits for it. What could you do on the device, "
        "so that there is only one thing left to fetch?",
        "`torch.stack(losses)` makes one tensor of them, on their device, without any transfer.",
        "`return torch.stack(losses).tolist()`: `.tolist()` fetches the whole tensor at once, and makes "
        "Python floats of it.",
    ),
)


def _losses(trial, count: int, seed: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [loss.clone() for loss in (5 * trial.randn(count, seed=seed)).to(dtype)]


def _expect_floats(trial, losses: list[torch.Tensor], wanted: list[float]) -> None:
    got = trial.call(losses)
    expect.kind(got, list, "a list")
    for value in got:
        expect.kind(value, float, "a float", "an element of the list")
    expect_numbers(got, wanted)


@fetch_losses.row("a list of floats, in order")
def floats_in_order(trial):
    for count, seed in zip((7, 1, 4), trial.seeds, strict=True):
        losses = _losses(trial, count, seed)
        wanted = [loss.item() for loss in losses]
        keep_busy(trial.device)
        _expect_floats(trial, losses, wanted)


@fetch_losses.row("one synchronization, however many losses", only="accelerator")
def one_synchronization(trial):
    for count in (9, 2, 70):  # of two losses nobody can say whether a second wait comes with each
        _, log = trial.watched(_losses(trial, count, trial.seeds[1]))
        if log.synchronizations != 1:
            waits = log.events.synchronizations
            causes = " and ".join(dict.fromkeys(wait.cause for wait in waits))
            why = f": {causes} each time" if len(waits) >= count else f", by {causes}" if waits else ""
            headline = f"the host waited {times(len(waits), 'time')} for {count} losses{why}"
            expect.fail(headline, "1 synchronization", "".join(str(wait.line) for wait in waits[:1]))


@fetch_losses.row("losses with a graph, or in half precision")
def graphs_and_halves(trial):
    weight = trial.randn(4, seed=trial.seeds[0]).requires_grad_()
    losses = [weight.square().sum() * number for number in (1.0, 0.5, 3.0)]
    wanted = [loss.item() for loss in losses]
    _expect_floats(trial, losses, wanted)
    try:
        losses[0].backward()
    except RuntimeError as error:  # the answer has gone that way, and used up the graph
        expect.fail("backward() of a loss fails after the call", "the losses as they came", str(error))
    if weight.grad is None or not bool(weight.grad.any()):
        expect.fail("a loss has lost its graph", "backward() gives a gradient afterwards", "no gradient")
    halves = _losses(trial, 5, trial.seeds[2], torch.float16)
    _expect_floats(trial, halves, [loss.item() for loss in halves])
    if has_float64(trial.device):
        wide = [loss / 3 for loss in _losses(trial, 4, trial.seeds[1], torch.float64)]
        wanted = [loss.item() for loss in wide]
        if trial.call(wide) != wanted:
            _expect_floats(trial, wide, wanted)  # which says what else is wrong
            expect.fail("digits of float64 losses were lost", "their values", "what float32 holds of them")


no_ping_pong = lesson.exercise(
    "no_ping_pong",
    signature="no_ping_pong(model, loader, device)",
    facts=("P1", "P2", "R1", "R2", "R5"),
    hints=(
        "Count the journeys: each batch goes in once, and all the outputs come out together. Where do they "
        "wait until then?",
        "Keep the outputs in a list, on the device. `torch.cat` joins them there. And without "
        "`torch.no_grad()` each output keeps its graph alive.",
        "Under `with torch.no_grad():` write `outputs = [model(x.to(device)) for x in loader]`, and then "
        "`return torch.cat(outputs).cpu()`.",
    ),
)


def _model(trial) -> nn.Module:
    seed_generators(trial.seeds[0])
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(trial.device)


def _inputs(trial, count: int, seed: int) -> torch.Tensor:
    return trial.randn(count, 3, seed=seed, on=CPU)


def _reference(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).cpu()(inputs)


@no_ping_pong.row("all outputs, in order, on the CPU")
def all_outputs(trial):
    model = _model(trial)
    for (count, size), seed in zip(((10, 4), (6, 3), (3, 5)), trial.seeds, strict=True):
        model.to(trial.device)  # whether a call moved it is judged in the next row
        inputs = _inputs(trial, count, seed)
        wanted = _reference(model, inputs)
        keep_busy(trial.device)
        got, seen, _ = read_at_once(trial, model, DataLoader(inputs, batch_size=size), trial.device)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.device != CPU:
            expect.fail(f"the outputs stayed on {got.device}", "one tensor on cpu", got)
        expect_arrived(trial, got, seen, wanted, "the result")
        parts = wanted.split(size)
        mistaken = {
            "only the last batch's outputs came back": parts[-1],
            "only the first batch's outputs came back": parts[0],
        }
        expect.named(
            seen, wanted, mistaken, f"the outputs of all {len(parts)} batches, in order", within=1e-4
        )
        if seen.shape == wanted.shape and not expect.is_alike(seen, wanted, 1e-4):
            mine, right = (rows.detach()[rows.detach()[:, 0].argsort()] for rows in (seen, wanted))
            if expect.is_alike(mine, right, 1e-4):
                expect.fail("the outputs came back in another order", "the loader's order", seen)
        expect.tensor(seen, wanted, CPU, within=1e-4)
    inputs = _inputs(trial, 7, trial.seeds[0])
    model = nn.Sequential(nn.Linear(3, 1)).to(trial.device)  # one output for each input has a dimension, too
    got = trial.call(model, DataLoader(inputs, batch_size=4), trial.device)
    expect.tensor(got, _reference(model, inputs), CPU, within=1e-4)
    # Whole numbers in, half precision out: neither is to become something else on the way.
    words = torch.arange(7) % 4
    model = nn.Embedding(4, 3).half().to(trial.device)
    got = trial.call(model, DataLoader(words, batch_size=3), trial.device)
    expect.tensor(got, _reference(model, words), CPU)


@no_ping_pong.row("the model stays where it is")
def model_stays(trial):
    model, inputs = _model(trial), _inputs(trial, 7, trial.seeds[2])
    before = [
        (name, tensor.device, tensor.detach().cpu().clone()) for name, tensor in model.named_parameters()
    ]
    trial.call(model, DataLoader(inputs, batch_size=4), trial.device)
    now = dict(model.named_parameters())
    for name, device, values in before:
        if now[name].device != device:
            headline = f"the model was moved to {now[name].device}"
            expect.fail(headline, f"{name} on {device}", f"{name} on {now[name].device}")
        expect.values(now[name], values, f"the model's {name}")


@no_ping_pong.row("without a graph")
def without_graph(trial):
    loader = DataLoader(_inputs(trial, 7, trial.seeds[0]), batch_size=3)
    got = trial.call(_model(trial), loader, trial.device)
    expect.kind(got, torch.Tensor, "a tensor")
    if got.requires_grad:
        expect.fail("the result still holds its graph", "requires_grad=False", "requires_grad=True")


@no_ping_pong.row("one transfer in a batch, one out at the end", only="accelerator")
def few_transfers(trial):
    model, inputs = _model(trial), _inputs(trial, 13, trial.seeds[1])
    log, ahead, here = watch(), [], str(trial.device)

    def note(*_: object) -> None:
        ahead.append(sum(transfer.target == here for transfer in log.events.transfers) - len(ahead))

    with model[0].register_forward_pre_hook(note):
        args = model, DataLoader(inputs, batch_size=3), trial.device
        trial.run(trial.answer, *args, label=trial.name, log=log)
    into = [transfer for transfer in log.events.transfers if transfer.target == here]
    out = [transfer for transfer in log.events.transfers if transfer.source == here]
    asked = "5 transfers in for 5 batches, 1 out"
    got = f"{len(into)} in, {len(out)} out"
    order = log.events.transfers
    if out and into and order.index(out[0]) < order.index(into[0]):
        headline = f"something was copied away from {here} before the first batch came: it is no output"
        expect.fail(headline, asked, f"{got}; {out[0].line}")
    if len(out) > 1:
        headline = f"{len(out)} transfers out of {here}, where the outputs are to wait until the end"
        expect.fail(headline, asked, f"{got}; {out[0].line}")
    if len(into) != 5:
        where = f"; {into[0].line}" if into else ""
        headline = f"{times(len(into), 'transfer')} into {here} for 5 batches: each is to come in one"
        expect.fail(headline, asked, got + where)
    if max(ahead, default=0) > 3:  # one in use, and some fetched ahead
        headline = f"{max(ahead)} batches were on {here} at once, before the model had seen them"
        expect.fail(headline, "each batch moved when its turn comes, since all together may not fit", got)
    if len(out) != 1 or log.transfers != 6:
        expect.fail(f"the outputs did not come from {here} in one transfer", asked, got)
    if log.synchronizations > 1:
        waits = [f"{wait.cause}, {wait.line}" for wait in log.events.synchronizations]
        causes = " and ".join(dict.fromkeys(wait.cause for wait in log.events.synchronizations))
        headline = f"the host waited {len(waits)} times, by {causes}"
        expect.fail(headline, "once, for the outputs", waits[0])
