"""A module around a block, which computes the block's activations twice and keeps none of them."""

import copy
import gc
from collections.abc import Callable

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.settings import seed_generators, undisturbed
from devlab.checks.trial import Skip
from devlab.lessons.lesson_12_less_memory_less_time import lesson

Checkpointed = lesson.exercise(
    "class Checkpointed(block)",
    ("F7",),
    "`torch.utils.checkpoint.checkpoint(block, *args, use_reentrant=False, **kwargs)` runs a block, keeps "
    "its inputs and nothing else, and runs it once more in backward. What of the block must a second run not "
    "change?",
    "The second run sees the same random numbers; that is taken care of. But a batch norm would update its "
    "running statistics twice. `context_fn` may be a function that returns two context managers, one for "
    "each run: `lambda: (contextlib.nullcontext(), buffers_kept(self.block))`.",
    "A `@contextlib.contextmanager` that notes `held = [(m, name, b, b.clone()) for m in block.modules() for "
    "name, b in m.named_buffers(recurse=False)]`, has `try: yield`, and `finally:`, under `torch.no_grad()`, "
    "puts back the tensor and its values: `setattr(m, name, b.copy_(value))`.",
)

WIDTH = 16
ASKS_NONE = " where the input asks for no gradient"


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
        nn.Linear(WIDTH, wide), nn.Tanh(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, WIDTH)
    )


def _make_model(trial, block: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return what the answer's class makes of a block on the trial's device, and a copy of that block."""
    ours = copy.deepcopy(block.to(trial.device))
    got = trial.call(block)
    expect.module(got, "Checkpointed", "what Checkpointed(block) makes")
    return got, ours


def _run(trial, module: nn.Module, *args: object, **named: object) -> object:
    """Run the module's forward as a learner would."""
    return trial.run(lambda *given: module(*given, **named), *args, label="Checkpointed(block)")


def _run_and_keep_nothing(trial, module: nn.Module, where: str, *args: object, **named: object) -> object:
    """Run the module's forward, and expect that its inputs and parameters alone are kept for backward."""
    given = [one for one in (*args, *named.values()) if isinstance(one, torch.Tensor)]
    own, saved = {one.data_ptr() for one in (*given, *module.parameters())}, []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        got = _run(trial, module, *args, **named)
    if kept := sum(one.nbytes for one in saved if one.data_ptr() not in own):
        headline = f"{kept:,} bytes of activations were kept for backward{where}"
        expect.fail(headline, "the input alone: the block runs again in backward", f"{kept:,} bytes")
    return got


def _back(trial, result: torch.Tensor, pull: Callable = verbs.pull) -> None:
    """Run backward as a part of the learner's work: errors in it are the answer's."""
    trial.run(pull, result, label="backward through Checkpointed(block)", changes=True)


def _expect_gradient(got: torch.Tensor, right: torch.Tensor, what: str, within: float = 1e-3) -> None:
    """Expect of one of the block's inputs or parameters the gradient of another, if that has one."""
    if right.grad is not None and got.grad is None:
        expect.fail(f"no gradient reaches the {what}", "the gradient that the block gives", "None")
    if right.grad is not None:
        expect.values(got.grad, right.grad, f"the gradient of the {what}", within=within)


def _expect_gradients(block: nn.Module, ours: nn.Module, within: float = 1e-3) -> None:
    for (name, one), right in zip(block.named_parameters(), ours.parameters(), strict=True):
        _expect_gradient(one, right, f"parameter {name}", within)


@Checkpointed.row("the block's results and gradients")
def results_and_gradients(trial):
    block = _plain(trial.seeds[0])
    (module, _), asked = _make_model(trial, block), "self.block = block, which registers it"
    if {id(one) for one in module.parameters()} != {id(one) for one in block.parameters()}:
        expect.fail("the block's parameters are not the module's", asked, module)
    headline = "the block is not registered in the module: `.to` would leave its buffers behind"
    expect.that(any(one is block for one in module.modules()), headline, asked, module)
    for seed in trial.seeds[:2]:
        _expect_as_the_block(trial, seed, trial.randn(5, WIDTH, seed=seed).requires_grad_())


@Checkpointed.row("gradients where the input asks for none")
def input_without_grad(trial):
    _expect_as_the_block(trial, trial.seeds[2], trial.randn(5, WIDTH, seed=trial.seeds[1]))


def _expect_as_the_block(trial, seed: int, x: torch.Tensor) -> None:
    """Expect the results and gradients of a block of this seed."""
    module, ours = _make_model(trial, block := _plain(seed))
    held = x.detach().clone().requires_grad_(x.requires_grad)
    wanted, got = ours(held), _run(trial, module, x)
    expect.tensor(got, wanted, trial.device, within=1e-4)
    if not got.requires_grad:
        where = ASKS_NONE * (not x.requires_grad)
        expect.fail(f"the result has no graph{where}", "gradients for the block's parameters, always", got)
    verbs.pull(wanted)
    _back(trial, got)
    _expect_gradients(block, ours)
    _expect_gradient(x, held, "input")


@Checkpointed.row("activations computed twice, not kept")
def not_kept(trial):
    for where, training in (("", True), (" in evaluation mode", False), (ASKS_NONE, True)):
        module, _ = _make_model(trial, block := _plain(trial.seeds[0]))
        module.train(training)
        x, runs = trial.randn(50, WIDTH, seed=trial.seeds[0]).requires_grad_(where != ASKS_NONE), []
        block[0].register_forward_pre_hook(lambda *_, runs=runs: runs.append(1))
        got = _run_and_keep_nothing(trial, module, where, x)
        forward = len(runs)
        _back(trial, got)
        if (forward, len(runs)) != (1, 2):
            first, second = verbs.times(forward, "time"), verbs.times(len(runs) - forward, "time")
            headline = f"the block ran {first} in forward and {second} in backward{where}"
            expect.fail(headline, "once in forward, once more in backward", "another number")


@Checkpointed.row("a lower peak of memory", only="accelerator")
def lower_peak(trial):
    memory = torch.get_device_module(trial.device)
    if not hasattr(memory, "reset_peak_memory_stats"):
        raise Skip(f"PyTorch keeps no peak of {trial.device.type}")
    blocks, peaks = [_plain(trial.seeds[0]) for _ in range(3)], []
    chain = nn.Sequential(*(_make_model(trial, block)[0] for block in blocks))
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
    headline = f"the peak of three blocks is {kept:,} bytes, and {plain:,} without checkpoints"
    expect.that(kept <= 0.7 * plain, headline, "less: one block's activations at a time", f"{kept:,} bytes")


@Checkpointed.row("the same random numbers both times")
def random_numbers(trial):
    if trial.device.type == "mps":
        raise Skip("PyTorch's checkpoint keeps no random numbers of mps")
    for seed in trial.seeds:
        x = trial.randn(40, WIDTH, seed=seed).requires_grad_()
        module, _ = _make_model(trial, nn.Sequential(nn.Dropout(0.5), nn.Identity()))
        once, got = (_run(trial, module, x) for _ in range(2))
        if bool((got != 0).all()):
            expect.fail("nothing was dropped: the block ran in another mode", "the block's own mode", got)
        if torch.equal(once != 0, got != 0):
            headline = "two forwards drew the same random numbers: dropout dropped the same elements"
            expect.fail(headline, "new random numbers in each forward, as the block draws them", "one mask")
        seed_generators(seed + 1)  # what else a program draws before backward
        _back(trial, got.sum(), torch.Tensor.backward)
        if x.grad is None:
            expect.fail("no gradient reaches the input", "the gradient that the block gives", "None")
        if not torch.equal(x.grad != 0, got != 0):  # a dropout's gradient is its mask
            headline = "the second run drew other random numbers: dropout dropped other elements"
            expect.fail(headline, "gradients where the first run let the input through", "another mask")


@Checkpointed.row("arguments by name, several results")
def arguments(trial):
    seed_generators(trial.seeds[0])
    module, ours = _make_model(trial, block := Scaled())
    random = [trial.randn(6, WIDTH, seed=seed) for seed in trial.seeds]
    names = "left", "shift", "mask"
    cases = [(2, {}, random[:2]), (2, {"gain": 0.3}, random[:2]), (2, {"gain": 0.5}, random), (0, {}, random)]
    cases += [(2, {"gain": -2.0}, [*random[:2], random[2].gt(0)])]  # truths ask for no gradient
    for count, named, tensors in cases:
        block.zero_grad(), ours.zero_grad()
        mine, theirs = ([x.clone().requires_grad_(x.is_floating_point()) for x in tensors] for _ in (0, 1))
        by_name, same = (dict([*zip(names, held, strict=False)][count:]) | named for held in (mine, theirs))
        wanted, where = ours(*theirs[:count], **same), " where inputs come by name" * bool(by_name)
        got = _run_and_keep_nothing(trial, module, where, *mine[:count], **by_name)
        expect.kind(got, tuple, "a tuple, as the block returns")
        for one, right in zip(got, wanted, strict=True):
            expect.tensor(one.detach(), right.detach(), trial.device, within=1e-4)
        (wanted[0].sum() + wanted[1]).backward()
        _back(trial, got[0].sum() + got[1], torch.Tensor.backward)
        _expect_gradients(block, ours)
        for name, one, right in zip(names, mine, theirs, strict=False):
            _expect_gradient(one, right, f"input `{name}`")


@Checkpointed.row("buffers updated once")
def buffers_once(trial):
    seed_generators(trial.seeds[1])
    seen = nn.Sequential(nn.Sequential(Seen()), nn.Tanh())
    block = nn.Sequential(nn.Linear(WIDTH, 6), nn.BatchNorm1d(6), seen, nn.Linear(6, 4))
    (module, ours), changed = _make_model(trial, block), []

    def keep_mode(norm: nn.Module, _: tuple) -> None:
        # A second run in the other mode may end the process, where PyTorch was told to compare nothing.
        changed.extend({norm.training} - {ours.training})
        norm.training = ours.training

    block[1].register_forward_pre_hook(keep_mode)
    for seed, training in zip((*trial.seeds, trial.seeds[0]), (True, True, True, False), strict=True):
        x = trial.randn(9, WIDTH, seed=seed).requires_grad_(seed == trial.seeds[0])
        module.train(training), ours.train(training)
        verbs.pull(ours(x.detach()))
        _back(trial, _run(trial, module, x))
        if changed:
            asked = "both runs in the mode that the block is in"
            expect.fail("a batch norm ran in another mode than its own", asked, f"training={changed[0]}")
        _expect_buffers(block, ours)
    _expect_gradients(block, ours, within=1e-2)
    # Two runs, and backward through the last one first, as where a block stands twice in a model.
    module.train(), ours.train()
    inputs = [trial.randn(9, WIDTH, seed=seed) for seed in trial.seeds[:2]]
    results = [_run(trial, module, x) for x in inputs]
    for x, result in zip(inputs, reversed(results), strict=True):
        ours(x)
        _back(trial, result)
    _expect_buffers(block, ours)


def _expect_buffers(block: nn.Module, ours: nn.Module) -> None:
    mine, theirs = (dict(one.named_buffers()) for one in (block, ours))
    counted, left = "1.num_batches_tracked", "was not left as the first run left it"
    norm = "updated in the second run as well" if mine[counted] > theirs[counted] else "not updated"
    known = {
        counted: f"a batch norm's buffers were {norm}",
        "2.0.0.rows": f"a buffer that is not saved, deep in the block, {left}",
        "2.0.0.batches": f"a buffer that forward replaces by a new tensor {left}",
    }
    for name, headline in known.items():
        got, wanted = (f"{name.rpartition('.')[2]}={int(side[name])}" for side in (mine, theirs))
        expect.that(got == wanted, headline, f"{wanted}: each batch counts once", got)
    for name in ("1.running_mean", "1.running_var"):
        expect.values(mine[name], theirs[name], f"the buffer {name[2:]}", within=1e-4)


@Checkpointed.row("without gradients as with them")
def without_gradients(trial):
    module, ours = _make_model(trial, block := _plain(trial.seeds[1]))
    x = trial.randn(5, WIDTH, seed=trial.seeds[0])
    for training in (True, False):
        module.train(training)
        with torch.no_grad():
            got = _run(trial, module, x)
        expect.tensor(got, ours(x).detach(), trial.device, within=1e-4)
        if got.requires_grad:
            expect.fail("the result has a graph under torch.no_grad()", "requires_grad=False", got)
        if block.training != training:
            expect.fail("the block was put into another mode", f"training={training}", f"{block.training}")
