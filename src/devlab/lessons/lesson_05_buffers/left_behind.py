"""A walk over a module: what `.to` will not find."""

from collections import OrderedDict, namedtuple
from collections.abc import Iterator

import torch
from torch import nn

from devlab.checks import verbs
from devlab.checks.calls import REGISTERED
from devlab.checks.cases import module as module_of
from devlab.checks.names import Found, expect_names, find_tensors
from devlab.lessons.lesson_05_buffers import lesson, norm

left_behind = lesson.exercise(
    "left_behind(module)",
    ("L4", "L5", "B4"),
    "`.to` moves what `module.parameters()` and `module.buffers()` yield, those of submodules included, and "
    "nothing else. Whatever else a module holds is among its other attributes, in `vars(module)`.",
    "Write a helper `loose(name, value)` that calls itself: for a tensor it yields the name and the tensor; "
    "through a list, tuple or dict it goes element by element, through a module attribute by attribute. "
    "Leave out registered parameters, and what it has yielded before, by their ids in a set.",
    'For each `path, part in module.named_modules()`, give it the items of `vars(part)` but `"_parameters"`, '
    '`"_buffers"` and `"_modules"`. A module that it meets and that is not among `module.modules()` is not '
    "registered: there it goes through those three as well, under the path that led there.",
)


Box = namedtuple("Box", "width height")
KEPT = ", once a buffer's: `.to` gives the buffer a new tensor, and the old one stays behind"


def find_left(module: nn.Module) -> Iterator[Found]:
    """Yield what `.to` leaves behind, once for each of its names."""
    registered = {id(part) for part in module.modules()}
    moved = {id(parameter) for parameter in module.parameters()}  # the same objects, in a list or not
    buffers = {id(buffer) for buffer in module.buffers()}
    for path, part in module.named_modules():
        loose = {key: value for key, value in vars(part).items() if key not in REGISTERED}
        where = f"the module's registered `{path}`" if path else "the module"
        for found in find_tensors(module_of(**loose), path, where, registered):
            _, tensor, words = found
            words += KEPT if id(tensor) in buffers else ", not registered"
            if id(tensor) not in moved:
                yield Found(found.name.lstrip("."), tensor, words)


def _expect_left(trial, module: nn.Module) -> None:
    """Expect exactly the names of what `.to` leaves behind, in any order."""
    headline = "`{path}` of the module was changed: left_behind is to look at the module alone"
    moved = "`{path}` replaced, moved, added or removed"
    with verbs.untouched(module, headline, "the module as it came", moved):
        got = trial.call(module)

    def unwanted(name: str) -> str:
        every = (module.named_parameters, module.named_buffers)
        if any(name == one for walk in every for one, _ in walk(remove_duplicate=False)):
            return "is listed, and it is registered: `.to` moves it"
        path = ".".join(["", *(step for step in name.split(".") if step not in REGISTERED)])
        found = next((one.tensor for one in find_tensors(module, "", "") if one.name == path), None)
        for kind, registered in (("parameter", module.parameters()), ("buffer", module.buffers())):
            if any(found is one for one in registered):
                return f"is listed, and `.to` moves it: it is a registered {kind} under another name"
        if found is not None:
            return "is one more name of a tensor that is in the list already"
        return "is listed, and the module holds no tensor of that name"

    expect_names(got, find_left(module), unwanted)


@left_behind.row("plain tensor attributes, by name")
def plain_attributes(trial):
    module = module_of(
        scale=torch.ones(3), _cache=torch.zeros(2, 2), step=torch.tensor(3), trained=nn.Linear(3, 2)
    )
    module.name, module.width, module.act, module.nothing = "net", 3, torch.relu, None
    _expect_left(trial, module)
    # The names are a fact about the module, wherever it is at the moment.
    module.to(trial.device).scale = trial.randn(3)
    _expect_left(trial, module)
    _expect_left(trial, module_of(window=trial.randn(4), ramp=torch.ones(2, requires_grad=True)))


@left_behind.row("what `.to` moves is not listed")
def moved_is_not_listed(trial):
    trained = nn.Linear(3, 2)
    module = module_of(norm=norm(), own=nn.Parameter(torch.ones(2)))
    _expect_left(trial, module.to(trial.device))
    module.trained, module.more = trained.to(trial.device), nn.ModuleList([nn.Linear(2, 2)])
    module.several = nn.ParameterList([torch.ones(2)])
    # A parameter that a plain list holds as well moves, since it stays the same object: nn.GRU relies on it.
    trained.bias.requires_grad_(False)
    module.layers, module.first = [trained, module.norm], {"weight": trained.weight, "bias": trained.bias}
    module.memory = nn.GRU(1, 1)
    module.scale = torch.ones(3)
    _expect_left(trial, module)


@left_behind.row("lists, tuples and dicts, nested")
def containers(trial):
    module = module_of(
        tables=[torch.ones(2), "text", torch.zeros(3)],
        pair=(torch.ones(1), None),
        cache={"key": torch.ones(2), "deep": [{"low": (7, torch.ones(4))}], 7: torch.full((3,), 7.0)},
        weights=[nn.Parameter(torch.ones(3))],
        empty=[],
        state=OrderedDict(low=torch.ones(2)),
        sizes=torch.Size([2]),
        box=Box(torch.ones(1), 2),
        _kept=[torch.ones(1), {"_low": torch.ones(2)}],
    )
    _expect_left(trial, module.to(trial.device))


@left_behind.row("modules inside, registered or in a list")
def modules_inside(trial):
    inner = module_of(positions=torch.ones(5), norm=norm(), parts=[torch.ones(1)], _window=torch.ones(2))
    inner.branches = {"deep": [nn.Linear(1, 1, bias=False)]}
    module = module_of(encoder=nn.Sequential(nn.ReLU(), inner))
    module.blocks = [nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1, bias=False), norm())]
    module.heads = {"main": module_of(bias=torch.ones(2), parts=[torch.ones(3)])}
    module.tails = (nn.Sequential(nn.ReLU(), module_of(scale=torch.ones(2))),)
    _expect_left(trial, module.to(trial.device))


@left_behind.row("a tensor with two names, once")
def shared_once(trial):
    window, tied = torch.ones(3), nn.Linear(2, 2, bias=False)
    module = module_of(window=window, other=torch.ones(3), inner=module_of(again=[window]), pair=[tied, tied])
    _expect_left(trial, module.to(trial.device))
    # Tensors that share memory are several tensors, as empty ones are. A buffer's view does not move with it.
    memory = torch.ones(6)
    module = module_of(low=memory[:2], all=memory, first=torch.zeros(0), second=torch.zeros(0))
    module.register_buffer("table", torch.arange(4))
    module.row = module.table[:2]
    _expect_left(trial, module)
    # A buffer that is held elsewhere as well is not the tensor that moves: `.to` puts another in its place.
    module = module_of(norm=norm())
    module.tables, module.last = [module.norm.mean], module.norm.steps
    _expect_left(trial, module)
