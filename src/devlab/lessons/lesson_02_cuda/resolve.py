"""From the name of a device to the one device that it means."""

import torch

from devlab.checks import expect, pretend, verbs
from devlab.lessons.lesson_02_cuda import lesson

resolve = lesson.exercise(
    "resolve(spec)",
    ("G1", "G2", "G3"),
    "`torch.device(spec)` reads the name. If the name has an index, or is that of the CPU, nothing is left "
    "to do. What does a bare name mean?",
    "PyTorch fills in the index when it makes a tensor, and an empty tensor costs nothing. You can also ask "
    "for `torch.accelerator.current_device_index()`.",
    '`device = torch.device(spec)`, and then `return device if device.type == "cpu" else torch.empty(0, '
    "device=device).device`.",
)


def _expect_device(trial, spec: str, wanted: torch.device, why: str, pretended: bool = False) -> None:
    got = trial.call(spec)
    expect.kind(got, torch.device, "a torch.device", "the answer")
    bare = got.type == wanted.type and got.index is None and wanted.index is not None
    said = f"{str(got)!r}, still without an index" if bare else str(got)
    if pretended:
        headline = f'{why} (pretended), and "{spec}" became {said}'
    else:
        headline = f"the answer is {said}" if bare else f"{why}, and the answer is {said}"
    expect.that(got == wanted, headline, f'device("{wanted}")', got)


def _alike(trial) -> list[torch.device]:
    return [one for one in (trial.device, *trial.others) if one.type == trial.device.type]


@resolve.row("a name with an index keeps its index")
def index_is_kept(trial):
    for current in _alike(trial):
        with verbs.current(current):
            for device in (trial.device, *trial.others):
                if device.type != "cpu":
                    _expect_device(trial, str(device), device, f"{device} was asked for")
    trial.second()


@resolve.row("a bare name becomes the current device", only="accelerator")
def bare_name(trial):
    kind = trial.device.type
    with verbs.current(trial.device):
        why = f'"{kind}" means {trial.device} while that is the current device'
        _expect_device(trial, kind, trial.device, why)
        got = verbs.kept(trial, kind, device=trial.other())
        expect.kind(got, torch.device, "a torch.device", "the answer")
        said = f"the answer is {got}, and {trial.device} is current, whatever the default device is"
        expect.equal(got, trial.device, said)
    trial.second()


@resolve.row("and follows when another becomes current", only="accelerator")
def follows(trial):
    kind = trial.device.type
    for device in (*_alike(trial), trial.device):
        with verbs.current(device):
            why = f'after {device} became the current device, "{kind}" means it'
            _expect_device(trial, kind, device, why)
    trial.second()


@resolve.row('"cuda", with three GPUs pretended')
def pretended_gpus(trial):
    for index in (2, 0, 1):
        with pretend.machine(trial, ("NVIDIA L4",) * 3, current=index):
            why = f"the current CUDA device is {index}"
            _expect_device(trial, "cuda", torch.device("cuda", index), why, pretended=True)
            for other in range(3):
                device = torch.device("cuda", other)
                _expect_device(trial, str(device), device, f"{device} was asked for", pretended=True)


@resolve.row('"mps" and "xpu", on machines pretended')
def pretended_others(trial):
    for kind in ("mps", "xpu"):
        with pretend.machine(trial, (), built=False, other=kind):
            for spec in (kind, f"{kind}:0"):
                why = f"the accelerator is {kind}"
                _expect_device(trial, spec, torch.device(kind, 0), why, pretended=True)


@resolve.row("the CPU is the CPU")
def the_cpu(trial):
    for current in _alike(trial):
        with verbs.current(current):
            for spec in ("cpu", "cpu:0"):
                got = trial.call(spec)
                expect.kind(got, torch.device, "a torch.device", "the answer")
                if got.type != "cpu" or got.index not in (None, 0):
                    expect.fail(f'"cpu" became {got}', 'device("cpu")', got)
    trial.second()
