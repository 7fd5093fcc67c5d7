"""The module that makes the first inf or nan of a forward."""

import functools

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised, changed, holdings, leaves
from devlab.checks.probes import Called
from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.lessons.lesson_10_debugging import lesson

first_not_finite = lesson.exercise(
    "first_not_finite(model, x)",
    ("X2", "R4"),
    "`module.register_forward_hook(look)` has `look(module, inputs, output)` called whenever that module "
    "has made its output. Which modules need a hook, and where does the name of each come from?",
    "For each of `model.named_modules()` register a hook that appends `(name, output.isfinite().all())` "
    "to a list: its order is the order in which the outputs were made. An output may hold its tensors in "
    "tuples, lists and dicts. In `finally`, call `remove()` of each hook.",
    "What the hooks append are tensors: `torch.stack` them, and fetch all by one `tolist()`. To look "
    "into an output, write an inner function that calls itself for each part of a container.",
)

INF = float("inf")


def ours(model, x):
    names, finite = [], []

    def look(name, _, __, output):
        for _, tensor in leaves([output]):
            if isinstance(tensor, torch.Tensor):
                names.append(name)
                finite.append(tensor.isfinite().all().to(x.device))

    parts = model.named_modules()
    hooks = [part.register_forward_hook(functools.partial(look, name)) for name, part in parts]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return next(
        (name for name, fine in zip(names, torch.stack(finite).tolist(), strict=True) if not fine), None
    )


class Layer(nn.Module):
    """A module whose forward is a function of its input, or of itself and its input where it has parts."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = functools.partial(function, self) if parts else function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        """Return what the function makes of x."""
        return self.function(x)


def join_steps(*steps):
    """Return the functions and modules one after the other, a list of them as a chain of its own."""
    made = [join_steps(*one) if isinstance(one, list) else one for one in steps]
    return nn.Sequential(*(one if isinstance(one, nn.Module) else Layer(one) for one in made))


def see_name(t, model, x):
    """Return what a scene sees of a call: the name in quotes, as the model's own is empty."""
    got = t.call(model, x)
    if got is not None:
        expect.kind(got, str, "the name of a module, or None", "the name")
    return "the name", "None" if got is None else f'"{got}"'


def make_rows(t, seed=0):
    """Return an input with a negative number, a zero and a positive number in each row."""
    return t.randn(3, 1, seed=t.seeds[seed]).abs() * torch.tensor([-1.0, 0.0, 1.0], device=t.device)


@scene(first_not_finite, ours, "the dotted name of the module", "the first output that is not finite")
def dotted_name(t):
    within = Layer(lambda self, x: self.inner(x).log(), inner=Layer(torch.tanh))
    for steps in (
        [torch.tanh, [torch.tanh, torch.log], torch.relu],
        [torch.tanh, [torch.tanh, torch.sqrt, torch.exp], nn.LayerNorm(3)],
        [torch.tanh, [torch.tanh, within], torch.exp],
    ):
        yield see_name(t, join_steps(*steps).to(t.device), make_rows(t))
    root = Layer(lambda self, x: self.inner(x).log(), inner=Layer(torch.tanh))
    yield see_name(t, root, make_rows(t, 1))


@scene(
    first_not_finite, ours, "inf counts, whatever comes of it later", "the first output that is not finite"
)
def inf_counts(t):
    for steps in (
        [torch.abs, torch.log, torch.exp],
        [torch.abs, torch.log, nn.ReLU(inplace=True), torch.tanh],
        [torch.reciprocal, torch.reciprocal, torch.tanh],
        [torch.abs, torch.log, lambda x: x - x, torch.tanh],
    ):
        yield see_name(t, join_steps(*steps), make_rows(t))


@scene(first_not_finite, ours, "in the order of the calls", "the module that ran first of those")
def order_of_calls(t):
    late = Layer(lambda self, x: self.first(self.second(x)), first=Layer(torch.sqrt), second=Layer(torch.log))
    yield see_name(t, late, make_rows(t))
    again = Layer(
        lambda self, x: self.log(self.exp(self.log(x)) + 1), log=Layer(torch.log), exp=Layer(torch.exp)
    )
    yield see_name(t, again, make_rows(t).abs())


@scene(first_not_finite, ours, "outputs in tuples, lists and dicts", "the first output that is not finite")
def other_outputs(t):
    pick = Layer(lambda held: held["b"][1] if isinstance(held, dict) else held[0])
    for made in (
        lambda x: (x, (x.abs().log(), 3)),
        lambda x: {"a": x.long(), "b": [None, x.sqrt()]},
        lambda x: [x, {"c": "a word", "d": x.reciprocal()}],
    ):
        yield see_name(t, join_steps(torch.tanh, made, pick), make_rows(t))
    memory = nn.LSTM(3, 2).to(t.device)
    with torch.no_grad():
        memory.weight_ih_l0.fill_(INF)
    yield see_name(t, join_steps(torch.tanh, memory), make_rows(t))


@scene(first_not_finite, ours, "None if all is finite, the model as it came")
def all_finite(t):
    first = Called(torch.tanh, "the model")
    model = join_steps(first, [nn.Linear(3, 3), torch.exp]).to(t.device)
    model[1][0].eval().weight.grad = torch.ones(3, 3, device=t.device)
    for x in (
        make_rows(t),
        make_rows(t)[:, :2],
    ):  # the second does not fit, and the error is not the answer's to hide
        before, hidden, seen = holdings(model), x.shape[1] == 2, []
        try:
            seen.append(see_name(t, model, x))
        except AnswerRaised:
            if not hidden:
                raise
            hidden = False
        yield must(not hidden, "the error of the model's forward was hidden", "the error that forward raises")
        yield from seen
        path = changed(before, model)
        headline = "a hook was left" if "_hooks" in path else f"`{path}` was changed"
        yield must(not path, f"{headline} on the model", "the model as it came", x)
    first.require_calls(2, graphs=False)


@scene(first_not_finite, ours, "one wait, however many modules", only="accelerator")
def one_wait(t):
    _, log = t.watched(join_steps(*[torch.tanh] * 6, torch.sqrt), make_rows(t))
    asked = "the answers of all modules fetched together, at the end"
    yield most(f"the host waited for {t.device} {{times}}: {{causes}}", log.events.synchronizations, 1, asked)
