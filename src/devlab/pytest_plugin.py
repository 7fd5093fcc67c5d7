"""The pytest plug-in: tests of PyTorch code that take a `device` run on the CPU and on every accelerator.

pytest loads this module wherever devlab is installed, so it imports nothing but the standard library and
pytest, and does nothing until a test asks for one of its fixtures, its marker or its option.
"""

import contextlib
import itertools
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch

CHOICES = ("cpu", "sim", "real", "all")
MARKER = "real_device"
ASKING = {"device", "two_devices", "watch", "no_sync"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--devlab`."""
    parser.getgroup("devlab", "tests on PyTorch devices").addoption(
        "--devlab",
        choices=CHOICES,
        help="where tests that ask for `device` run: cpu alone; sim: the CPU and the simulated accelerators; "
        "real: the CPU and the accelerators of this machine; all: every one of them. Without it: real where "
        "there is an accelerator, else sim.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(kind=None): skip the test where PyTorch can use no real accelerator, or none of the kind "
        "(cuda, mps, xpu) that is named",
    )


def devices_of(choice: str | None) -> "list[torch.device]":
    """Return the devices that a choice of `--devlab` means, the CPU first; None is what is best here.

    Raises pytest.UsageError where `real` is asked for on a machine that has no accelerator.

    >>> devices_of("cpu")
    [device(type='cpu')]
    """
    import torch

    from devlab.devices import real_accelerators, simulated_accelerators

    real = real_accelerators()
    if choice == "real" and not real:
        raise pytest.UsageError("--devlab real: PyTorch can use no accelerator on this machine")
    found = [torch.device("cpu")]
    if choice not in ("cpu", "sim"):
        found += real
    if choice in ("sim", "all") or (choice is None and not real):
        found += simulated_accelerators()
    return found


@pytest.hookimpl(trylast=True)  # after a project's own hooks and marks, which take precedence
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for our `device` once on each device; a project's own is left alone."""
    if "device" not in metafunc.fixturenames or _has_own_devices(metafunc):
        return
    definitions = metafunc.definition._fixtureinfo.name2fixturedefs.get("device", ())
    if definitions and definitions[-1].func.__module__ == __name__:
        found = devices_of(metafunc.config.getoption("--devlab"))
        kinds = [_kind(mark) for mark in metafunc.definition.iter_markers(MARKER)]
        if kinds:  # the CPU stands for no device at all: the test is skipped
            real = [one for one in found if one.type not in ("cpu", "sim")]
            found = [one for one in real if {one.type, None}.issuperset(kinds)] or found[:1]
        metafunc.parametrize("device", found, indirect=True, ids=str)


def _has_own_devices(metafunc: pytest.Metafunc) -> bool:
    return any("device" in call.params for call in metafunc._calls)


def _kind(mark: pytest.Mark) -> str | None:
    """Return the kind of hardware that a marker names."""
    return mark.args[0] if mark.args else mark.kwargs.get("kind")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> "Iterator[torch.device]":
    """A device to test on: the test runs once for each that `--devlab` chooses."""
    if not hasattr(request, "param"):
        pytest.fail(
            "device: pytest runs a test once for each device only where the test, or a fixture of it, has an "
            "argument `device`. It cannot do so for a unittest.TestCase, nor for request.getfixturevalue.",
            pytrace=False,
        )
    place = _device_of(request.param)
    with _leave_as_found(place):
        yield place


def _device_of(given) -> "torch.device":
    """Return a device that a project's own `parametrize(..., indirect=True)` may have given by name."""
    import torch

    if isinstance(given, str) and given.partition(":")[0] == "sim":
        from devlab import sim

        sim.enable()
    return torch.device(given)


@pytest.fixture
def two_devices(request: pytest.FixtureRequest) -> "Iterator[tuple[torch.device, torch.device]]":
    """Two accelerators of one kind, for code that spreads work: real where there are two, else simulated."""
    found = devices_of(request.config.getoption("--devlab"))[1:]
    pair = next(((a, b) for a, b in itertools.pairwise(found) if a.type == b.type), None)
    if pair is None:
        pytest.skip("two_devices: two accelerators of one kind are needed; --devlab sim has them")
    with _leave_as_found(*pair):
        yield pair


@pytest.fixture
def watch():
    """`devlab.watch`: `with watch() as log:` counts the block's transfers, synchronizations and launches."""
    from devlab.watching.watch import watch

    return watch


@pytest.fixture
def no_sync():
    """`devlab.no_sync`: `with no_sync():` fails the test at the line that makes the host wait."""
    from devlab.watching.quiet import no_sync

    return no_sync


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a real accelerator where there is none of its kind, or `--devlab` wants none."""
    for mark in item.iter_markers(MARKER):
        from devlab.devices import real_accelerators

        needed, choice = f"needs a real {_kind(mark) or 'accelerator'}", item.config.getoption("--devlab")
        if choice in ("cpu", "sim"):
            pytest.skip(f"{needed}, and --devlab {choice} leaves those out")
        here = [found.type for found in real_accelerators()]
        if not here or _kind(mark) not in (None, *here):
            pytest.skip(f"{needed}, and PyTorch can use {', '.join(here) or 'none'} here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item):
    """Raise after a test what a simulated device noticed in it and no wait reported; the next begins anew.

    On CUDA such an error would fail all tests that follow. A test that used no simulated device has none.
    """
    late = None
    try:
        return (yield)
    finally:
        if "devlab.sim.assertions" in sys.modules:
            from devlab.checks.calls import settle_devices

            late = settle_devices()
        if late and not late.failure.heard:
            raise late


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Put what `devlab.explain` says under a failed test that asked for a device.

    The test's traceback is shown without the simulator's own frames.
    """
    asks = ASKING & set(getattr(item, "fixturenames", ()))
    said, error = "", call.excinfo.value if call.excinfo is not None else None
    if error is not None and "torch" in sys.modules:
        from devlab.explaining import explained, uncaught
        from devlab.explaining.report import worth_explaining

        if asks and worth_explaining(error):
            said = explained(error).text()
        short = uncaught.shortened(error, error.__traceback__)
        if short is not error.__traceback__:
            call.excinfo = pytest.ExceptionInfo.from_exc_info((type(error), error, short))
    report = yield
    if report.failed and said:
        report.sections.append(("devlab explains", said))
    return report


@contextlib.contextmanager
def _leave_as_found(*devices: "torch.device") -> Iterator[None]:
    """Put back after a test the default device, and the current device and streams of an accelerator."""
    import torch

    before = torch.get_default_device()
    with contextlib.ExitStack() as stack:
        for kind in {device.type for device in devices} - {"cpu"}:
            stack.enter_context(_keep_current(kind))
        try:
            yield
        finally:
            # A test that sets the CPU leaves a mode, too, which PyTorch's fast paths heed: None leaves none.
            if before.type == "cpu":
                torch.set_default_device(None)
            elif torch.get_default_device() != before:
                torch.set_default_device(before)


@contextlib.contextmanager
def _keep_current(kind: str) -> Iterator[None]:
    if kind == "sim":
        from devlab.sim.switches import keep_switches

        with keep_switches():
            yield
        return
    import torch

    module = torch.get_device_module(kind)
    if not hasattr(module, "current_stream"):  # MPS: one device with one stream
        yield
        return
    index = module.current_device()
    streams = [module.current_stream(number) for number in range(module.device_count())]
    yield
    for stream in streams:
        if module.current_stream(stream.device) != stream:
            module.set_stream(stream)
    module.set_device(index)
