"""What CUDA's kernels assert on the device: the launch passes, and the error comes at the next wait."""

import subprocess
import sys
import warnings

import pytest
import torch
from torch.nn import functional

import devlab.sim
from devlab.sim import clock, rule

A_LONG_KERNEL = 3_000_000_000  # bytes: 10 ms of the device


def numbers(device):
    """Return a table of three rows."""
    return torch.arange(12.0, device=device).reshape(3, 4)


def index(device, wrong, shape=(2,)):
    """Return indices of a table of three rows, out of range or not."""
    return torch.full(shape, 7 if wrong else 1, device=device)


def rows(device):
    """Return two rows to write."""
    return torch.ones(2, 4, device=device)


def pooled(device, count):
    """Return pooled numbers and where they were."""
    return getattr(functional, f"max_pool{count}d")(
        torch.randn(1, 1, *[4] * count, device=device), 2, return_indices=True
    )


def unpooled(device, wrong, count):
    """Return numbers put back where they were, or anywhere."""
    values, places = pooled(device, count)
    return getattr(functional, f"max_unpool{count}d")(values, places + 999 * wrong, 2)


def bag(device, wrong, **more):
    """Return the sums or maxima of two rows."""
    weight = torch.ones(3, 4, device=device, dtype=more.pop("dtype", torch.float32))
    return functional.embedding_bag(index(device, wrong, (1, 2)), weight, **more)


def chances(device, wrong):
    """Return probabilities, one of them negative or not."""
    return torch.tensor([0.5, -1.0 if wrong else 0.5], device=device)


def log_chances(*shape, device):
    """Return the logarithms of equal probabilities."""
    return torch.zeros(shape, device=device).log_softmax(1)


def put(device, wrong, **more):
    """Return a table of which rows were replaced."""
    return numbers(device).index_put_((index(device, wrong),), rows(device), **more)


def assigned(device, wrong):
    """Return a table to which a number was assigned."""
    x = numbers(device)
    x[index(device, wrong)] = 0.0
    return x


def written_out(device, wrong):
    """Return rows that were written into a tensor given."""
    return torch.index_select(numbers(device), 0, index(device, wrong), out=torch.empty(0, device=device))


# Each runs on a device, with values that are out of range or not.
CASES = {
    "index": lambda d, w: numbers(d)[index(d, w)],
    "index of two": lambda d, w: numbers(d)[index(d, w), index(d, False)],
    "index beside a mask": lambda d, w: numbers(d)[torch.tensor([True, False, True], device=d), index(d, w)],
    "index from the host": lambda d, w: numbers(d)[index("cpu", w)],
    "index by a list": lambda d, w: numbers(d)[[0, 7 if w else 1]],
    "negative index": lambda d, w: numbers(d)[-index(d, w)],
    "index_put_": put,
    "index_put_ that adds": lambda d, w: put(d, w, accumulate=True),
    "assignment": assigned,
    "index_select": lambda d, w: numbers(d).index_select(0, index(d, w)),
    "index_select of columns": lambda d, w: numbers(d).index_select(1, index(d, w)),
    "index_select into out": written_out,
    "index_add": lambda d, w: numbers(d).index_add(0, index(d, w), rows(d)),
    "index_add_ of one dimension": lambda d, w: torch.ones(3, device=d).index_add_(
        0, index(d, w), torch.ones(2, device=d)
    ),
    "index_copy_": lambda d, w: numbers(d).index_copy_(0, index(d, w), rows(d)),
    "index_fill_": lambda d, w: numbers(d).index_fill_(0, index(d, w), 1.0),
    "index_reduce": lambda d, w: numbers(d).index_reduce(0, index(d, w), rows(d), "amax"),
    "gather": lambda d, w: numbers(d).gather(0, index(d, w, (2, 4))),
    "scatter_": lambda d, w: numbers(d).scatter_(0, index(d, w, (2, 4)), rows(d)),
    "scatter of a number": lambda d, w: numbers(d).scatter(0, index(d, w, (2, 4)), 1.0),
    "scatter_add": lambda d, w: numbers(d).scatter_add(0, index(d, w, (2, 4)), rows(d)),
    "scatter_reduce": lambda d, w: numbers(d).scatter_reduce(0, index(d, w, (2, 4)), rows(d), "amax"),
    "take": lambda d, w: numbers(d).take(99 * index(d, w) * w),
    "put_": lambda d, w: numbers(d).put_(99 * index(d, w) * w, torch.ones(2, device=d)),
    "embedding": lambda d, w: functional.embedding(index(d, w), numbers(d)),
    "embedding with max_norm": lambda d, w: functional.embedding(index(d, w), numbers(d), max_norm=1.0),
    "embedding_bag": bag,
    "embedding_bag of maxima": lambda d, w: bag(d, w, mode="max"),
    "embedding_bag in float64": lambda d, w: bag(d, w, dtype=torch.float64),
    "nll_loss": lambda d, w: functional.nll_loss(log_chances(2, 3, device=d), index(d, w)),
    "nll_loss of each": lambda d, w: functional.nll_loss(
        log_chances(2, 3, device=d), index(d, w).byte(), reduction="none"
    ),
    "nll_loss of pictures": lambda d, w: functional.nll_loss(
        log_chances(2, 3, 5, 5, device=d), index(d, w, (2, 5, 5))
    ),
    "cross_entropy": lambda d, w: functional.cross_entropy(rows(d), -index(d, w) * w),
    "multi_margin_loss": lambda d, w: functional.multi_margin_loss(rows(d), index(d, w)),
    "one_hot": lambda d, w: functional.one_hot(index(d, w), 3),
    "binary_cross_entropy": lambda d, w: functional.binary_cross_entropy(1 + 0.5 * rows(d) * w, rows(d)),
    "its target": lambda d, w: functional.binary_cross_entropy(rows(d), 1 + 0.5 * rows(d) * w),
    "multinomial": lambda d, w: torch.multinomial(chances(d, w), 2, replacement=True),
    "multinomial without replacement": lambda d, w: torch.multinomial(chances(d, w), 2),
    "bernoulli": lambda d, w: torch.bernoulli(chances(d, w)),
    "bernoulli_": lambda d, w: torch.ones(2, device=d).bernoulli_(chances(d, w)),
    "poisson": lambda d, w: torch.poisson(chances(d, w)),
    "max_unpool1d": lambda d, w: unpooled(d, w, 1),
    "max_unpool2d": lambda d, w: unpooled(d, w, 2),
    "max_unpool3d": lambda d, w: unpooled(d, w, 3),
    "masked_scatter_": lambda d, w: numbers(d).masked_scatter_(
        numbers(d) >= 0, torch.ones(3 if w else 12, device=d)
    ),
}
HOST = {
    "a Python index": lambda d: numbers(d)[7],
    "an index of no dimension": lambda d: numbers(d)[torch.tensor(7)],
    "select": lambda d: numbers(d).select(0, 7),
    "too many indices": lambda d: numbers(d)[index(d, 0), index(d, 0), index(d, 0)],
    "shapes of indices": lambda d: numbers(d)[index(d, 0), index(d, 0, (3,))],
    "a mask's shape": lambda d: numbers(d)[torch.ones(2, dtype=torch.bool, device=d)],
    "a dtype": lambda d: numbers(d)[index(d, 0).float()],
    "a dimension": lambda d: numbers(d).gather(5, index(d, 1, (2, 4))),
    "an index's size": lambda d: numbers(d).gather(0, index(d, 1, (2, 9))),
    "an empty dimension": lambda d: torch.ones(0, 4, device=d)[index(d, 1)],
    "a number of probability": lambda d: torch.ones(2, device=d).bernoulli_(1.5),
    "a tensor of the host": lambda d: numbers("cpu")[index(d, 1)],
    "a batch of another size": lambda d: functional.nll_loss(log_chances(2, 3, device=d), index(d, 1, (3,))),
}


def raises_late():
    """Expect what CUDA says of an assertion on the device."""
    return pytest.raises(torch.AcceleratorError, match=r"^sim error: device-side assert triggered\n")


# They launch other kernels behind the one that asserts.
GOING_ON = {"binary_cross_entropy", "its target", "multinomial", "multinomial without replacement"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - GOING_ON))
def test_the_launch_passes_and_the_wait_fails(name, device):
    """A result has the shape and the dtype that it would have, and `reset` gives the device back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # index_reduce is in beta
        with pytest.raises((IndexError, RuntimeError)) as on_cpu:
            CASES[name]("cpu", True)
        assert not isinstance(on_cpu.value, torch.AcceleratorError)
        expected = CASES[name](device, False)
        torch.sim.synchronize(device)
        found = CASES[name](device, True)
    form = (found.shape, found.dtype, found.device, found.stride())
    assert form == (expected.shape, expected.dtype, expected.device, expected.stride())
    with raises_late():
        torch.sim.synchronize(device)
    with raises_late():
        torch.sim.synchronize(device)
    devlab.sim.reset()
    torch.sim.synchronize(device)
    assert (torch.ones(2, device=device) + 1).tolist() == [2, 2]


@pytest.mark.parametrize("name", sorted(GOING_ON))
def test_a_later_kernel_of_the_same_call_learns_of_the_failure(name, device):
    """So the call itself fails on an idle H200, as recorded."""
    with raises_late():
        CASES[name](device, True)


def test_behind_long_work_the_call_passes(device):
    """All its kernels are launched before the first one has run."""
    wrong = chances(device, True)
    clock.launch(torch.device(device).index, A_LONG_KERNEL)
    assert torch.multinomial(wrong, 1).shape == (1,)
    with raises_late():
        torch.sim.synchronize(device)


def test_a_loss_that_is_not_reduced_is_one_kernel(device):
    """Nothing in the call comes behind the kernel that asserts, so the call passes."""
    functional.binary_cross_entropy(rows(device) + 2, rows(device), reduction="none")
    with raises_late():
        torch.sim.synchronize(device)


def test_whole_numbers_are_divided_by_zero(device):
    """`//` and `%` raise nothing on an H200, as recorded; the digits of the result are undefined."""
    one, zero = torch.tensor([6, 7], device=device), torch.tensor([0, 2], device=device)
    for divided in (
        one // zero,
        one % zero,
        torch.div(one, zero, rounding_mode="trunc"),
        one // 0,
        5 // zero,
    ):
        assert divided.dtype is torch.int64
    torch.sim.synchronize(device)
    assert (one // zero)[1].item() == 3
    one //= zero
    assert one[1].item() == 3
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.tensor(6) // 0


@pytest.mark.parametrize("name", HOST)
def test_what_the_host_can_see_raises_at_once(name, device):
    """Shapes, dtypes and Python's own numbers are looked at before anything is launched."""
    with pytest.raises((IndexError, RuntimeError, ValueError)) as raised:
        HOST[name](device)
    assert not isinstance(raised.value, torch.AcceleratorError)
    torch.sim.synchronize(device)


def test_what_was_never_computed():
    """A tensor that was to be changed is as it was; a new one holds NaN, or 0 where there is no NaN."""
    x, whole, at = numbers("sim"), torch.arange(3, device="sim"), index("sim", True)
    clock.launch(0, A_LONG_KERNEL)
    x.index_fill_(0, at, 1.0)
    made, whole = x[at], whole[at]
    devlab.sim.reset()
    assert torch.equal(x.cpu(), numbers("cpu"))
    assert made.isnan().all()
    assert whole.tolist() == [0, 0]


def ready():
    """Return a tensor that the device has finished."""
    return torch.ones(3, 4, device="sim")


def _asked(event):
    """Ask until the device has long been done."""
    return [event.query() for _ in range(20)]


WAITS = {
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "print": repr,
    "if": lambda x: bool((x > 0).all()),
    "nonzero": lambda x: x.nonzero(),
    "copy_": lambda x: torch.empty(3, 4).copy_(x),
    "to the device": lambda x: torch.ones(3).to("sim"),
    "synchronize": lambda x: torch.sim.synchronize(),
    "accelerator": lambda x: torch.accelerator.synchronize(),
    "stream": lambda x: torch.sim.current_stream().synchronize(),
    "stream's query": lambda x: [torch.sim.current_stream().query() for _ in range(20)],
    "event": lambda x: torch.sim.current_stream().record_event().synchronize(),
    "event's query": lambda x: _asked(torch.sim.current_stream().record_event()),
}


@pytest.mark.parametrize("name", WAITS)
def test_every_wait_tells(name):
    """CUDA reports the error of a kernel from whatever call comes next and can know of it."""
    x = ready()
    x[index("sim", True)]
    with raises_late():
        WAITS[name](x)


LAUNCHES = {
    "elementwise": lambda x: x + 1,
    "of one": lambda x: x.exp(),
    "product": lambda x: x @ x.T,
    "reduction": lambda x: x.sum(0),
    "in place": lambda x: x.add_(1),
    "into out": lambda x: torch.exp(x, out=torch.empty(3, 4, device="sim")),
    "factory": lambda x: torch.zeros(3, device="sim"),
    "random numbers": lambda x: torch.randn(3, device="sim"),
    "another dtype": lambda x: x.to(torch.float64),
    "a copy on the device": lambda x: x.copy_(x.T.reshape(3, 4)),
    "to another device": lambda x: x.to("sim:1"),
    "from another device": lambda x: torch.ones(3, device="sim:1").to("sim:0"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_launch_after_the_kernel_fails(name):
    """A lost device takes no work: no launch and no copy."""
    x = ready()
    x[index("sim", True)]
    clock.spend(1e-3)  # in which the kernel runs
    with raises_late():
        LAUNCHES[name](x)


@pytest.mark.parametrize("name", LAUNCHES)
def test_launches_before_the_kernel_has_run_pass(name):
    """The host is ahead of the device, and learns nothing of what the device has not reached."""
    x = ready()
    clock.launch(0, A_LONG_KERNEL)
    x[index("sim", True)]
    LAUNCHES[name](x)
    with raises_late():
        torch.sim.synchronize()


def test_what_needs_no_device_goes_on():
    """Views, shapes and memory without contents need no kernel."""
    x = ready()
    x[index("sim", True)]
    clock.spend(1e-3)
    assert x.T[1:].shape == (3, 3)
    assert torch.empty(3, device="sim").shape == (3,)
    assert torch.sim.memory_allocated() > 0


def test_the_other_device_works_on():
    """On CUDA the error belongs to the context of one device."""
    ready()[index("sim", True)]
    clock.spend(1e-3)
    y = torch.ones(3, device="sim:1") * 2
    torch.sim.synchronize("sim:1")
    assert y.tolist() == [2, 2, 2]
    with raises_late():
        torch.sim.synchronize("sim:0")


def test_another_stream_learns_of_it_once_it_has_run():
    """A wait for a stream that is done early says nothing of a kernel that has not run."""
    x = ready()
    side = torch.sim.Stream()
    clock.launch(0, A_LONG_KERNEL)
    x[index("sim", True)]
    side.synchronize()
    with raises_late():
        torch.sim.synchronize()


def test_words():
    """PyTorch's words, with the name of this device in the place of CUDA's, and what to do here."""
    ready()[index("sim", True)]
    with pytest.raises(torch.AcceleratorError) as raised:
        torch.sim.synchronize()
    assert str(raised.value).splitlines() == [
        "sim error: device-side assert triggered",
        "sim kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
        "might be incorrect.",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "sim:0 is unusable until devlab.sim.reset() is called; a CUDA device stays unusable until the "
        "process ends.",
    ]
    assert raised.value.__context__ is None


def test_the_failure_knows_where_it_began():
    """The line that launched the kernel is among the frames, the operator and the reason are kept."""
    line = sys._getframe().f_lineno + 1
    ready()[index("sim", True)]
    with pytest.raises(torch.AcceleratorError) as raised:
        torch.sim.synchronize()
    failure = raised.value.failure
    assert (__file__, line) in failure.frames
    assert failure.operator == "aten::index.Tensor"
    assert failure.reason == "index 7 is out of bounds for dimension 0 with size 3"


def test_launch_blocking_brings_the_error_to_its_line(monkeypatch):
    """Each launch waits for its kernel then, and the message has no excuse for the traceback."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    x = ready()
    with raises_late() as raised:
        x[index("sim", True)]
    assert str(raised.value).startswith("sim error: device-side assert triggered\nsim:0 is unusable")
    with raises_late():
        torch.sim.synchronize()


def test_on_mps_the_next_wait_tells_once():
    """MPS notes what was out of range, raises it from the next wait, and works on."""
    with devlab.sim.rules("mps"):
        x = torch.ones(3, 4, device="sim")
        x[index("sim", True)]
        clock.spend(1e-3)
        y = x + 1
        with pytest.raises(torch.AcceleratorError) as raised:
            torch.sim.synchronize()
        assert str(raised.value) == "index 7 is out of bounds for dimension 0 with size 3"
        torch.sim.synchronize()
        assert y[0].tolist() == [2, 2, 2, 2]
        assert devlab.sim.following() == "mps"
        x[index("sim", True)]
    torch.sim.synchronize()


def test_a_block_of_rules_begins_and_ends_with_sound_devices():
    """The devices that follow other rules are others, and those after the block are new."""
    ready()[index("sim", True)]
    with devlab.sim.rules("mps"):
        torch.sim.synchronize()
        with devlab.sim.rules("cuda"):
            ready()[index("sim", True)]
        torch.sim.synchronize()
    torch.sim.synchronize()
    assert devlab.sim.following() == "cuda"
    assert not rule.active


def test_a_failure_does_not_change_the_rules():
    """A device that has failed follows CUDA's rules as before: numbers of the host, dtypes, copies."""
    x = ready()
    clock.launch(0, A_LONG_KERNEL)
    x[index("sim", True)]
    assert devlab.sim.following() == "cuda"
    assert x.double().dtype == torch.float64
    with pytest.raises(NotImplementedError, match="addmm_cuda"):
        x.long() @ x.long().T


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, lambda: torch.autocast("sim")])
def test_under_other_modes(mode):
    """Whatever is in force, the error is the same."""
    with mode():
        x = ready()
        loss = functional.cross_entropy(x.T, index("sim", True, (4,)))
        assert loss.shape == ()
        with raises_late():
            loss.item()


def test_under_vmap():
    """Batched indices are looked at by the same kernels."""
    found = torch.func.vmap(lambda row, at: row[at])(numbers("sim"), index("sim", True, (3, 2)))
    assert found.shape == (3, 2)
    with raises_late():
        torch.sim.synchronize()


BACKWARDS = """
import torch, devlab.sim
from devlab.sim import clock
from torch.nn import functional
devlab.sim.enable()
d = "sim:1"
wrong = torch.full((2,), 1_000_000_000, device=d)
torch.sim.synchronize(d)

def weight(*shape):
    return torch.randn(*shape, device=d, requires_grad=True)

def loss(name):
    if name == "embedding":
        return functional.embedding(wrong, weight(5, 4))
    if name == "bag":
        return functional.embedding_bag(wrong[None], weight(5, 4))
    if name == "bag of maxima":
        return functional.embedding_bag(wrong[None], weight(5, 4), mode="max")
    if name == "weighted bag":
        return functional.embedding_bag(
            wrong[None], weight(5, 4), mode="sum", per_sample_weights=weight(1, 2)
        )
    if name == "nll":
        return functional.cross_entropy(weight(2, 5), wrong)
    if name == "nll2d":
        return functional.cross_entropy(weight(2, 5, 3, 3), wrong[:, None, None].expand(2, 3, 3))
    if name == "margin":
        return functional.multi_margin_loss(weight(2, 5), wrong)
    if name == "index":
        return weight(5, 4)[wrong]
    if name == "index_select":
        return weight(5, 4).index_select(0, wrong)
    if name == "gather":
        return weight(5, 4).gather(0, wrong[:, None])
    if name == "take":
        return weight(5, 4).take(wrong)
    if name == "unpool":
        return functional.max_unpool1d(weight(1, 1, 2), wrong[None, None], 2)
    if name == "bce":
        return functional.binary_cross_entropy(weight(2) + 9, wrong.float())

for name in {names}:
    for long in (True, False):
        devlab.sim.reset()
        if long:  # the backward pass is launched before the kernel of the forward has run
            clock.launch(1, 3_000_000_000)
        try:
            loss(name).sum().backward()
            told = "passed"
        except torch.AcceleratorError as error:
            told = str(error).splitlines()[0]
        try:
            torch.sim.synchronize(d)
        except torch.AcceleratorError:
            told += " | late"
        print(name, long, told, flush=True)
devlab.sim.reset()
x = torch.ones(3, device=d, requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist())
"""
NAMES = [
    "embedding",
    "bag",
    "bag of maxima",
    "weighted bag",
    "nll",
    "nll2d",
    "margin",
    "index",
    "index_select",
    "gather",
    "take",
    "unpool",
    "bce",
]


def test_no_backward_ends_the_process():
    """Behind a kernel that failed no kernel trusts its indices; an error inside of a backward arrives."""
    code = BACKWARDS.replace("{names}", repr(NAMES))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    for name in NAMES:
        assert f"{name} True passed | late" in lines
        late = (
            f"{name} False sim error: device-side assert triggered | late",
            f"{name} False passed | late",  # so few launches that the kernel has not run
        )
        assert set(late) & set(lines), run.stdout
    assert lines[-1] == "[2.0, 2.0, 2.0]"


def test_a_sound_device_takes_the_quick_kernels():
    """What keeps operators from their quickest kernels is gone after a reset, and was not there before."""
    assert (rule.active, clock.failures) == ([], [])
    ready()[index("sim", True)]
    assert len(rule.active) == len(clock.failures) == 1
    devlab.sim.reset()
    assert (rule.active, clock.failures) == ([], [])
