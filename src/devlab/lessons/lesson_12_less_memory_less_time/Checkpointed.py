"""A module around a block, which computes the block's activations twice and keeps none of them."""

import copy
import gc

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.settings import seed_generators, undisturbed
from devlab.checks.trial import Skip
from devlab.lessons.lesson_12_less_memory_less_time import lesson

Checkpointed = lesson.exercise(
    "Checkpointed",
    signature="class Checkpointed(block)",
    facts=("F7",),
    hints=(
        "`torch.utils.checkpoint.checkpoint(block, *args, use_reentrant=False, **kwargs)` runs a block, "
        "keeps its inputs and nothing else, and runs it once more in backward. What of the block must a "
        "second run not change?",
        "The second run sees the same random numbers; that is taken care of. But a batch norm would update "
        "its running statistics twice. `context_fn` may be a function that returns two context managers, one "
        "for each run: `lambda: (contextlib.nullcontext(), buffers_kept(self.block))`.",
        "A `@contextlib.contextmanager` that notes `held = [(m, name, b, b.clone()) for m in block.modules() "
        "for name, b in m.named_buffers(recurse=False)]`, has `try: yield`, and `finally:`, under "
        "`torch.no_grad()`, puts back the tensor and its values: `setattr(m, name, b.copy_(value))`.",
    ),
)

WIDTH = 16


class Counted(nn.Module):
    """Passes its input on and counts its forwards."""

    def __init__(self):
        super().__init__()
        self.forwards = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x as it is."""
        self.forwards += 1
        return x


class Scaled(nn.Module):
    """A block with arguments by position and by name, tensors and plain values."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(
        self, left: torch.Tensor, shift: torch.Tensor, *, gain: float = 1.0, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two results."""
        y = torch.tanh(self.inner(left) * gain + shift)
        return (y if mask is None else y * mask), y.square().mean()


class Seen(nn.Module):
    """Passes its input on and counts rows, in a buffer that is not saved, and batches, in new tensors."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x as it is."""
        self.rows += len(x)
        self.batches = self.batches + 1
        return x


def _plain(seed: int) -> nn.Sequential:
    """Return a block whose activations are many times its input."""
    seed_generators(seed)
    wide = 8 * WIDTH
    return nn.Sequential(
        Counted(), nn.Linear(WIDTH, wide), nn.Tanh(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, WIDTH)
    )


def _made(trial, block: nn.Module) -> nn.Module:
    """Return what the answer's class makes of a block."""
    got = trial.call(block)
    expect.module(got, "Checkpointed", "what Checkpointed(block) makes")
    return got


def _run(trial, module: nn.Module, *args: object, **named: object) -> object:
    """Run the module's forward as a learner would."""
    return trial.run(lambda *given: module(*given, **named), *args, label="Checkpointed(block)")


def _back(trial, result: torch.Tensor) -> None:
    """Run backward as a part of the learner's work: errors in it are the answer's."""
    trial.run(verbs.pull, result, label="backward through Checkpointed(block)", changes=True)


def _expect_gradients(block: nn.Module, ours: nn.Module, within: float = 1e-3) -> None:
    for (name, one), right in zip(block.named_parameters(), ours.parameters(), strict=True):
        if one.grad is None:
            expect.fail(f"the parameter {name} has no gradient", "the gradient that the block gives", "None")
        expect.values(one.grad, right.grad, f"the gradient of {name}", within=within)


@Checkpointed.row("the block's results and gradients")
def results_and_gradients(trial):
    for seed in trial.seeds[:2]:
        block = _plain(seed).to(trial.device)
        ours = copy.deepcopy(block)
        module = _made(trial, block)
        if {id(one) for one in module.parameters()} != {id(one) for one in block.parameters()}:
            headline = "the block's parameters are not the module's"
            expect.fail(headline, "self.block = block, which registers it", module)
        if all(one is not block for one in module.modules()):
            headline = "the block is not registered in the module: `.to` would leave its buffers behind"
            expect.fail(headline, "self.block = block, which registers it", module)
        x = trial.randn(5, WIDTH, seed=seed).requires_grad_()
        held = x.detach().clone().requires_grad_()
        wanted = ours(held)
        got = _run(trial, module, x)
        expect.kind(got, torch.Tensor, "a tensor")
        expect.tensor(got.detach(), wanted.detach(), trial.device, within=1e-4)
        if not got.requires_grad:
            expect.fail("the result has no graph", "requires_grad=True", got)
        verbs.pull(wanted)
        _back(trial, got)
        _expect_gradients(block, ours)
        if x.grad is None:
            expect.fail("no gradient reaches the input", "the gradient that the block gives", "None")
        expect.values(x.grad, held.grad, "the gradient of the input", within=1e-3)


@Checkpointed.row("gradients where the input asks for none")
def input_without_grad(trial):
    block = _plain(trial.seeds[2]).to(trial.device)
    ours, module = copy.deepcopy(block), _made(trial, block)
    x = trial.randn(5, WIDTH, seed=trial.seeds[1])
    verbs.pull(ours(x))
    got = _run(trial, module, x)
    expect.kind(got, torch.Tensor, "a tensor")
    if not got.requires_grad:
        asked = "gradients for the block's parameters: data never asks for one"
        expect.fail("the result has no graph where the input asks for no gradient", asked, got)
    _back(trial, got)
    _expect_gradients(block, ours)


@Checkpointed.row("activations computed twice, not kept")
def not_kept(trial):
    block = _plain(trial.seeds[0]).to(trial.device)
    module, x = _made(trial, block), trial.randn(50, WIDTH, seed=trial.seeds[0]).requires_grad_()
    own = {one.data_ptr() for one in (x, *block.parameters())}
    saved = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(0 if tensor.data_ptr() in own else tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        got = _run(trial, module, x)
    if kept := sum(saved):
        headline = f"{kept:,} bytes of activations were kept for backward"
        expect.fail(headline, "the input alone: the block runs again in backward", f"{kept:,} bytes")
    forwards = block[0].forwards
    _back(trial, got)
    if forwards != 1 or block[0].forwards != 2:
        headline = f"the block ran {verbs.times(forwards, 'time')} in forward"
        headline += f" and {verbs.times(block[0].forwards - forwards, 'time')} in backward"
        expect.fail(headline, "once in forward, once more in backward", "another number")


@Checkpointed.row("a lower peak of memory", only="accelerator")
def lower_peak(trial):
    memory = torch.get_device_module(trial.device)
    if not hasattr(memory, "reset_peak_memory_stats"):
        raise Skip(f"PyTorch keeps no peak of {trial.device.type}")
    blocks = [_plain(trial.seeds[0]).to(trial.device) for _ in range(3)]
    chain = nn.Sequential(*(_made(trial, block) for block in blocks))
    peaks = []
    with undisturbed():
        for one in (nn.Sequential(*blocks), chain):
            for parameter in one.parameters():
                parameter.grad = torch.zeros_like(parameter)
            x = trial.randn(2000, WIDTH, seed=trial.seeds[1])
            gc.collect()
            memory.reset_peak_memory_stats(trial.device)
            before = memory.memory_allocated(trial.device)
            result = _run(trial, one, x)
            _back(trial, result)
            del result
            peaks.append(memory.max_memory_allocated(trial.device) - before)
    plain, kept = peaks
    if kept > 0.7 * plain:
        headline = f"the peak of three blocks is {kept:,} bytes, and {plain:,} without checkpoints"
        expect.fail(headline, "less: one block's activations at a time", f"{kept:,} bytes")


@Checkpointed.row("the same random numbers both times")
def random_numbers(trial):
    if trial.device.type == "mps":
        raise Skip("PyTorch's checkpoint keeps no random numbers of mps")
    for seed in trial.seeds:
        x = trial.randn(40, WIDTH, seed=seed).requires_grad_()
        module = _made(trial, nn.Sequential(nn.Dropout(0.5), nn.Identity()).to(trial.device))
        once, got = (_run(trial, module, x) for _ in range(2))
        if torch.equal(once != 0, got != 0):
            headline = "two forwards drew the same random numbers: dropout dropped the same elements"
            expect.fail(headline, "new random numbers in each forward, as the block draws them", "one mask")
        seed_generators(seed + 1)  # what else a program draws before backward
        trial.run(got.sum().backward, label="backward through Checkpointed(block)", changes=True)
        if x.grad is None:
            expect.fail("no gradient reaches the input", "the gradient that the block gives", "None")
        # A dropout's gradient is its own mask: 2 where the input went through, else 0.
        if not torch.equal((x.grad != 0).cpu(), (got != 0).cpu()):
            headline = "the second run drew other random numbers: dropout dropped other elements"
            expect.fail(headline, "gradients where the first run let the input through", "another mask")
    if not bool((got != 0).any()) or bool((got != 0).all()):
        expect.fail("nothing was dropped: the block ran in another mode", "the block's own mode", got)


@Checkpointed.row("arguments by name, several results")
def arguments(trial):
    seed_generators(trial.seeds[0])
    block = Scaled().to(trial.device)
    ours, module = copy.deepcopy(block), _made(trial, block)
    random = [trial.randn(6, WIDTH, seed=seed) for seed in trial.seeds]
    # By position, or all of them by name; the last case has a mask of truths, which asks for no gradient.
    cases = (
        (2, {}, random[:2]),
        (2, {"gain": 0.3}, random[:2]),
        (2, {"gain": 0.5}, random),
        (0, {}, random),
        (2, {"gain": -2.0}, [*random[:2], random[2].gt(0)]),
    )
    for count, named, tensors in cases:
        block.zero_grad()
        ours.zero_grad()
        sides = []
        for _ in range(2):
            held = [one.clone().requires_grad_(one.is_floating_point()) for one in tensors]
            keys = dict(zip(("left", "shift", "mask"), held, strict=False))
            by_name = dict(list(keys.items())[count:]) | named
            sides.append((held, by_name))
        (mine, by_name), (theirs, same) = sides
        wanted = ours(*theirs[:count], **same)
        got = _run(trial, module, *mine[:count], **by_name)
        expect.kind(got, tuple, "a tuple, as the block returns")
        for one, right in zip(got, wanted, strict=True):
            expect.tensor(one.detach(), right.detach(), trial.device, within=1e-4)
        (wanted[0].sum() + wanted[1]).backward()
        trial.run(
            (got[0].sum() + got[1]).backward, label="backward through Checkpointed(block)", changes=True
        )
        _expect_gradients(block, ours)
        for what, one, right in zip(("left", "shift", "mask"), mine, theirs, strict=False):
            if right.grad is not None and one.grad is None:
                headline = f"no gradient reaches the input `{what}`"
                expect.fail(headline, "the gradients that the block gives, to every input", "None")
            if right.grad is not None:
                expect.values(one.grad, right.grad, f"the gradient of the input `{what}`", within=1e-3)


@Checkpointed.row("buffers updated once")
def buffers_once(trial):
    seed_generators(trial.seeds[1])
    seen = nn.Sequential(nn.Sequential(Seen()), nn.Tanh())
    block = nn.Sequential(nn.Linear(WIDTH, 6), nn.BatchNorm1d(6), seen, nn.Linear(6, 4)).to(trial.device)
    ours, module = copy.deepcopy(block), _made(trial, block)
    for seed in trial.seeds:
        x = trial.randn(9, WIDTH, seed=seed)
        verbs.pull(ours(x))
        _back(trial, _run(trial, module, x))
        _expect_buffers(block, ours)
    _expect_gradients(block, ours, within=1e-2)
    # Two runs, and backward through the last one first, as where a block stands twice in a model.
    inputs = [trial.randn(9, WIDTH, seed=seed) for seed in trial.seeds[:2]]
    results = [_run(trial, module, x) for x in inputs]
    for x in inputs:
        ours(x)
    for result in reversed(results):
        _back(trial, result)
    _expect_buffers(block, ours)


def _expect_buffers(block: nn.Module, ours: nn.Module) -> None:
    counted, wanted = block[1].num_batches_tracked.item(), ours[1].num_batches_tracked.item()
    asked = f"num_batches_tracked={wanted}: each batch counts once"
    if counted > wanted:
        headline = "a batch norm's buffers were updated in the second run as well"
        expect.fail(headline, asked, f"num_batches_tracked={counted}")
    if counted < wanted:
        expect.fail("a batch norm's buffers were not updated", asked, f"num_batches_tracked={counted}")
    for name in ("running_mean", "running_var"):
        expect.values(getattr(block[1], name), getattr(ours[1], name), f"the buffer {name}", within=1e-4)
    got, wanted = (int(one[2][0][0].rows) for one in (block, ours))
    if got != wanted:
        headline = "a buffer that is not saved, deep in the block, was not left as the first run left it"
        expect.fail(headline, f"{wanted} rows counted", f"{got}")
    got, wanted = (int(one[2][0][0].batches) for one in (block, ours))
    if got != wanted:
        headline = "a buffer that forward replaces by a new tensor was not left as the first run left it"
        expect.fail(headline, f"{wanted} batches counted", f"{got}")


@Checkpointed.row("without gradients as with them")
def without_gradients(trial):
    block = _plain(trial.seeds[1]).to(trial.device)
    ours, module = copy.deepcopy(block), _made(trial, block)
    x = trial.randn(5, WIDTH, seed=trial.seeds[0])
    for training in (True, False):
        module.train(training)
        with torch.no_grad():
            got = _run(trial, module, x)
        expect.tensor(got, ours(x).detach(), trial.device, within=1e-4)
        if got.requires_grad:
            expect.fail("the result has a graph under torch.no_grad()", "requires_grad=False", got)
        if block.training != training:
            headline = "the block was put into another mode"
            expect.fail(headline, f"training is {training}", f"training is {block.training}")
