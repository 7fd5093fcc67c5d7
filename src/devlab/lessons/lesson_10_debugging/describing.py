"""Two tools that look: one at a tensor, one at everything a model has registered."""

import math
import re

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import holdings
from devlab.checks.describe import SHORT_DTYPES
from devlab.devices import has_float64
from devlab.lessons.lesson_10_debugging import holding, lesson, require_same

describing = lesson.exercise(
    "describe",
    signature="describe(x)",
    facts=("X1",),
    hints=(
        "Three attributes of a tensor, in one line of text. None of them asks for a single element.",
        "An f-string turns each into text: `{x.dtype}` gives `torch.float32`, `{x.device}` the name with its "
        "index. `x.shape` reads `torch.Size([4, 3])`, `list(x.shape)` reads `[4, 3]`.",
        '`return f"{x.dtype} {list(x.shape)} {x.device}"`',
    ),
)

NUMBERS = r"(?<![\w.])\d+(?:\s*(?:,|x|X|×|\*|by)\s*\d+)*"
CROSSED = r"(?<![\w.])\d+(?:\s*(?:x|X|×|\*|by)\s*\d+)+"  # and a comma after it begins something else
SPACED = r"(?<![\w.])\d+(?:\s+\d+)*"
NO_DIMENSION = r"\(\s*\)|\[\s*\]|\bscalar\b|\b(?:0|zero)[- ]?d"
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in SHORT_DTYPES} | {
    short: dtype for dtype, short in SHORT_DTYPES.items()
}


def _text(trial, x: torch.Tensor) -> str:
    got = trial.call(x)
    expect.kind(got, str, "a str")
    return got


def _said_dtypes(text: str) -> set[torch.dtype]:
    words = re.findall(r"[a-z]+\d*", text.lower())
    return {DTYPES[word] for word in words if word in DTYPES}


def _said_shapes(text: str, device: torch.device) -> set[tuple[int, ...]]:
    rest = text.replace(str(device), " ")
    found = [one for pattern in (NUMBERS, CROSSED, SPACED) for one in re.findall(pattern, rest)]
    shapes = {tuple(int(number) for number in re.findall(r"\d+", one)) for one in found}
    return shapes | ({()} if re.search(NO_DIMENSION, rest.lower()) else set())


@describing.row("it names the shape")
def names_shape(trial):
    for seed, shape in enumerate([(4, 3), (7,), (2, 5, 3), (), (0, 6), (1, 11)]):
        x = trial.randn(math.prod(shape), seed=trial.seeds[seed % 3]).reshape(shape)
        got = _text(trial, x)
        if shape not in _said_shapes(got, x.device):
            asked = str(list(shape)).replace(" ", "")
            expect.fail(f"the shape {asked} is not in the text", asked, repr(got))
    got = _text(trial, trial.randn(5, 2).t())
    if (2, 5) not in _said_shapes(got, trial.device):
        expect.fail("the shape of a transposed tensor is not in the text", "[2, 5]", repr(got))


@describing.row("it names the dtype")
def names_dtype(trial):
    for dtype in (
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        *((torch.float64,) if has_float64(trial.device) else ()),
    ):
        got = _text(trial, trial.randint(0, 2, (3, 2), seed=trial.seeds[0]).to(dtype))
        said = _said_dtypes(got)
        if dtype not in said:
            expect.fail(f"the dtype {dtype} is not in the text", str(dtype), repr(got))
        if said != {dtype}:
            expect.fail("the text names more than one dtype", str(dtype), repr(got))


@describing.row("it names the device, with its index")
def names_device(trial):
    for device in (trial.device, *trial.others):
        got = _text(trial, trial.randn(2, 3, seed=trial.seeds[1], on=device))
        if not re.search(rf"(?<![A-Za-z0-9]){re.escape(str(device))}(?!\w|:\d)", got):
            expect.fail(f"the device {device} is not in the text", str(device), repr(got))


@describing.row("it reads no value", only="accelerator")
def reads_nothing(trial):
    x = trial.randn(3, 4, seed=trial.seeds[2])
    for given in (x, x[0, 0], x[0, :2], x > 0, x.long(), trial.randn(20, 15)):
        got, log = trial.watched(given)
        expect.kind(got, str, "a str")
        if log.transfers or log.synchronizations:
            expect.fail(
                "describing the tensor fetched values from the device",
                "no transfer and no wait",
                f"{log.transfers} transfers, {log.synchronizations} waits",
            )


report = lesson.exercise(
    "device_report",
    signature="device_report(model)",
    facts=("X2", "X3"),
    hints=(
        "What `.to` moves are the parameters and the buffers. PyTorch has a walk for each that yields pairs "
        "of a dotted name and a tensor.",
        "`model.named_parameters()` and `model.named_buffers()`. A `state_dict` will not do: it leaves out "
        "the buffers that are not saved.",
        "`{name: tensor.device for name, tensor in [*model.named_parameters(), *model.named_buffers()]}`",
    ),
)


def _expect_report(trial, model: nn.Module, wanted: dict[str | tuple, torch.device], why: str = "") -> None:
    """Expect exactly these names and devices; of a tuple of names, which are one tensor, one or more."""
    before = holdings(model)
    got = trial.call(model)
    require_same(model, before)
    expect.kind(got, dict, "a dict", "the report")
    allowed = {}
    for names, device in wanted.items():
        names = names if isinstance(names, tuple) else (names,)
        allowed |= dict.fromkeys(names, device)
        if not any(name in got for name in names):
            said = ", ".join(map(str, got)) or "an empty dict"
            expect.fail(f"`{names[0]}` is not in the report{why}", " or ".join(names), said)
    for name, device in got.items():
        if name not in allowed:
            expect.fail(
                f"`{name}` is reported, but it is no parameter and no buffer",
                ", ".join(allowed) or "an empty dict",
                ", ".join(map(str, got)),
            )
        expect.kind(device, torch.device, "a torch.device", f"the value at `{name}`")
        expect.equal(device, allowed[name], f"`{name}` is reported on another device than its own")


def _net() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ModuleDict({"head": nn.Linear(4, 2)}))
    net[0].bias.requires_grad_(False)
    return net


PARAMETERS = ("0.weight", "0.bias", "1.weight", "1.bias", "2.head.weight", "2.head.bias")
BUFFERS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")


@report.row("every parameter, by its dotted name")
def reports_parameters(trial):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2, bias=False)))
    model[0].bias.requires_grad_(False)
    model = model.to(trial.device)
    _expect_report(trial, model, dict.fromkeys(("0.weight", "0.bias", "2.0.weight"), trial.device))
    _expect_report(trial, nn.Linear(2, 3).to(trial.device), dict.fromkeys(("weight", "bias"), trial.device))


@report.row("every buffer, saved or not")
def reports_buffers(trial):
    model = _net()
    model.register_buffer("steps", torch.arange(3), persistent=False)
    model.register_buffer("nothing", None)
    model = model.to(trial.device)
    names = (*PARAMETERS, *BUFFERS, "steps")
    _expect_report(trial, model, dict.fromkeys(names, trial.device), ": it is a parameter or a buffer")
    only = nn.Module()
    only.register_buffer("table", torch.ones(4))
    _expect_report(trial, only.to(trial.device), {"table": trial.device})
    # Two without an element, one that is a part of another, in a submodule, and in another mode.
    model = holding(part=nn.Module()).eval().to(trial.device)
    for name, buffer in (("one", trial.randn(0)), ("two", trial.randn(0)), ("all", trial.randn(4))):
        model.part.register_buffer(name, buffer, persistent=False)
    model.part.register_buffer("some", model.part.all[:2])
    names = ("part.one", "part.two", "part.all", "part.some")
    _expect_report(trial, model, dict.fromkeys(names, trial.device))


@report.row("each on its own device")
def reports_each(trial):
    other = trial.other()
    model = _net().to(trial.device)
    model[0].to(other)
    model[1].running_var = model[1].running_var.to(other)
    astray = ("0.weight", "0.bias", "1.running_var")
    wanted = {name: other if name in astray else trial.device for name in (*PARAMETERS, *BUFFERS)}
    _expect_report(trial, model, wanted)


@report.row("and nothing else")
def reports_nothing_else(trial):
    _expect_report(trial, nn.ReLU(), {})
    tied = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    tied[1].weight = tied[0].weight
    tied.scale, tied.tables = torch.ones(3), [torch.ones(2)]
    tied.spare = [nn.Linear(2, 2)]
    _expect_report(trial, tied.to(trial.device), {("0.weight", "1.weight"): trial.device})
    _expect_report(trial, holding(window=torch.ones(2), name="net"), {})
