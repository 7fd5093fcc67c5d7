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
ASKING = {"device", "two_devices", "watch"}


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for our `device` once on each device; a project's own is left alone."""
    if "device" not in metafunc.fixturenames or _marked_with_own_devices(metafunc):
        return
    definitions = metafunc.definition._fixtureinfo.name2fixturedefs.get("device", ())
    if definitions and definitions[-1].func.__module__ == __name__:
        choice = metafunc.config.getoption("--devlab")
        metafunc.parametrize("device", devices_of(choice), indirect=True, ids=str)


def _marked_with_own_devices(metafunc: pytest.Metafunc) -> bool:
    names = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize") if mark.args]
    listed = [name.split(",") if isinstance(name, str) else name for name in names]
    return any(name.strip() == "device" for group in listed for name in group)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> "Iterator[torch.device]":
    """A device to test on: the test runs once for each that `--devlab` chooses."""
    with _births_remembered(request.param), _told():
        yield request.param


@pytest.fixture
def two_devices(request: pytest.FixtureRequest) -> "Iterator[tuple[torch.device, torch.device]]":
    """Two accelerators of one kind, for code that spreads work: real where there are two, else simulated."""
    found = devices_of(request.config.getoption("--devlab"))[1:]
    pair = next(((a, b) for a, b in itertools.pairwise(found) if a.type == b.type), None)
    if pair is None:
        pytest.skip("two_devices: two accelerators of one kind are needed; --devlab sim has them")
    with _births_remembered(pair[0]), _told():
        yield pair


@pytest.fixture
def watch():
    """`devlab.watch`: `with watch() as log:` counts the block's transfers, synchronizations and launches."""
    from devlab.watching.watch import watch

    return watch


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a real accelerator where there is none of its kind."""
    for mark in item.iter_markers(MARKER):
        from devlab.devices import real_accelerators

        kind = mark.args[0] if mark.args else mark.kwargs.get("kind")
        here = [found.type for found in real_accelerators()]
        if not here or (kind is not None and kind not in here):
            pytest.skip(
                f"needs a real {kind or 'accelerator'}, and PyTorch can use {', '.join(here) or 'none'} here"
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Put what `devlab.explain` says under a failed test that asked for a device."""
    report = yield
    asks = ASKING & set(getattr(item, "fixturenames", ()))
    if report.failed and call.excinfo is not None and asks and "torch" in sys.modules:
        from devlab.explaining import explained
        from devlab.explaining.report import worth_explaining

        if worth_explaining(call.excinfo.value):
            report.sections.append(("devlab explains", explained(call.excinfo.value).text()))
    return report


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Raise after a test what a simulated device noticed in it and no wait reported; the next begins anew.

    On CUDA one such error would fail all tests that follow.
    """
    from devlab.checks.calls import noticed

    try:
        yield
    finally:
        late = noticed()
    if late and not late.failure.heard:
        raise late


@contextlib.contextmanager
def _births_remembered(device: "torch.device") -> Iterator[None]:
    """Remember in a block where tensors are made, so that an explanation can name the line that made them."""
    from devlab.explaining import births

    if device.type == "cpu" or births.active():
        yield
        return
    births.remember(device)
    try:
        yield
    finally:
        births.forget()
