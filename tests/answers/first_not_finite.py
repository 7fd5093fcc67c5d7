"""Answers to first_not_finite."""

import torch
from bank import right, wrong

NAME = "the dotted name of the module"
INF = "inf counts, whatever comes of it later"
ORDER = "in the order of the calls"
OUTPUTS = "outputs in tuples, lists and dicts"
FINITE = "None if all is finite, the model as it came"
WAIT = "one wait, however many modules"


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [found for one in value for found in tensors(one)] if isinstance(value, (list, tuple)) else []


def is_finite(value):
    flags = [torch.isfinite(one).all() for one in tensors(value)]
    return torch.stack(flags).all() if flags else torch.tensor(True)


def hooked(model, x, ask=is_finite, parts=None, note=None):
    """Return (name, what was asked of its output) for each call of a module, in their order."""
    seen, hooks = [], []
    for name, part in parts or model.named_modules():

        def look(part, inputs, output, name=name):
            seen.append((name, ask(output)))

        hooks.append(part.register_forward_hook(look))
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def first(seen):
    flags = torch.stack([flag.to(seen[-1][1].device) for _, flag in seen]).tolist()
    return next((name for (name, _), fine in zip(seen, flags, strict=True) if not fine), None)


@right
def by_named_modules(model, x):
    return first(hooked(model, x))


@right
def by_a_count_of_sums(model, x):
    """What is not finite makes a sum of zeros times it nan."""
    names, sums, hooks = [], [], []
    for name, part in model.named_modules():
        hooks += [part.register_forward_hook(lambda m, i, out, name=name: note(name, out))]

    def note(name, out):
        found = [
            one.detach().double().mul(0).sum().cpu() if x.device.type == "cpu" else (one * 0).sum()
            for one in tensors(out)
            if one.is_floating_point()
        ]
        if found:
            names.append(name)
            sums.append(sum(found))

    try:
        model(x)
    finally:
        [hook.remove() for hook in hooks]
    for name, value in zip(names, torch.stack(sums).tolist(), strict=True):
        if value != 0:
            return name
    return None


@right
def one_hook_for_all(model, x):
    """A hook for every module there is, by which only those of this model are kept."""
    names = {part: name for name, part in model.named_modules()}
    seen = []

    def look(part, inputs, output):
        if part in names:
            seen.append((names[part], is_finite(output)))

    hook = torch.nn.modules.module.register_module_forward_hook(look)
    try:
        with torch.no_grad():
            model(x)
    finally:
        hook.remove()
    return first(seen)


@right
def the_place_of_the_first(model, x):
    """The place is found on the device, by the index of the smallest flag."""
    seen = [one for one in hooked(model, x) if one[1].device == x.device]
    flags = torch.stack([flag for _, flag in seen]).int()
    place = torch.where(flags.all(), -1, flags.argmin()).item()
    return None if place < 0 else seen[place][0]


@wrong('the name is None, not "1.1"', row=INF)
def nan_alone(model, x):
    def ask(output):
        flags = [~torch.isnan(one).any() for one in tensors(output)]
        return torch.stack(flags).all() if flags else torch.tensor(True)

    return first(hooked(model, x, ask))


@wrong("it is the last module with such an output, and not the first", row=NAME)
def the_last(model, x):
    seen = hooked(model, x)
    return next((name for name, flag in reversed(seen) if not flag), None)


@wrong('the name is "1", not "1.1"', row=NAME)
def the_models_children(model, x):
    return first(hooked(model, x, parts=[*model.named_children()]))


@wrong('the name is "Layer", not "1.1"', row=NAME)
def the_class(model, x):
    name = first(hooked(model, x))
    return None if name is None else type(model.get_submodule(name)).__name__


@wrong("the name is a Layer, not the name of a module, or None", row=NAME)
def the_module(model, x):
    name = first(hooked(model, x))
    return None if name is None else model.get_submodule(name)


@wrong("modules that have parts are passed over, and can make it themselves", row=NAME)
def the_leaves(model, x):
    parts = [(name, part) for name, part in model.named_modules() if not list(part.children())]
    return first(hooked(model, x, parts=parts))


@wrong('the name is None, not "1"', row=INF)
def looks_when_all_is_over(model, x):
    seen = hooked(model, x, ask=lambda output: output)
    return first([(name, is_finite(output)) for name, output in seen])


@wrong('the name is "first", not "second"', row=ORDER)
def in_the_order_of_registration(model, x):
    flags = dict(hooked(model, x))
    names = sorted((name for name, _ in model.named_modules() if name), key=lambda name: -name.count("."))
    return next((name for name in [*names, ""] if not flags[name]), None)


@wrong("a module that runs twice is asked the last time alone", row=ORDER)
def the_last_call_of_each(model, x):
    seen = hooked(model, x)
    last = dict(seen)
    order = list(dict.fromkeys(name for name, _ in seen))
    return next((name for name in order if not last[name]), None)


@wrong("your code raised", row=OUTPUTS)
def tensors_alone(model, x):
    return first(hooked(model, x, ask=lambda output: torch.isfinite(output).all()))


@wrong("what an output holds in a container is not looked at", row=OUTPUTS)
def passes_over_containers(model, x):
    def ask(output):
        return output.isfinite().all() if isinstance(output, torch.Tensor) else torch.tensor(True)

    return first(hooked(model, x, ask))


@wrong("the name is", row=OUTPUTS)
def the_first_level(model, x):
    def ask(output):
        found = output if isinstance(output, (tuple, list)) else [output]
        flags = [one.isfinite().all() for one in found if isinstance(one, torch.Tensor)]
        return torch.stack(flags).all() if flags else torch.tensor(True)

    return first(hooked(model, x, ask))


@wrong("a hook was left on the model", row=FINITE)
def leaves_its_hooks(model, x):
    seen = []
    for name, part in model.named_modules():
        part.register_forward_hook(lambda m, i, output, name=name: seen.append((name, is_finite(output))))
    model(x)
    return first(seen)


@wrong("a hook was left on the model", row=FINITE)
def leaves_them_after_an_error(model, x):
    seen, hooks = [], []
    for name, part in model.named_modules():
        look = lambda m, i, output, name=name: seen.append((name, is_finite(output)))  # noqa: E731
        hooks.append(part.register_forward_hook(look))
    model(x)
    for hook in hooks:
        hook.remove()
    return first(seen)


@wrong("the error of the model's forward was hidden", row=FINITE)
def hides_the_error(model, x):
    try:
        return first(hooked(model, x))
    except RuntimeError:
        return None


@wrong("`0.training` was changed on the model", row=FINITE)
def in_evaluation_mode(model, x):
    model.eval()
    return first(hooked(model, x))


@wrong("the model was called 3 times, not 2 times", row=FINITE)
def runs_it_first(model, x):
    model(x)
    return first(hooked(model, x))


@wrong('the name is None, not "1.1"', row=NAME)
def returns_nothing(model, x):
    print(first(hooked(model, x)))


@wrong("the host waited for {device} 8 times", row=WAIT)
def asks_each_at_once(model, x):
    found = []

    def ask(output):
        flag = is_finite(output)
        found.append(bool(flag))
        return flag

    seen = hooked(model, x, ask)
    return next((name for (name, _), fine in zip(seen, found, strict=True) if not fine), None)


@wrong('the name is "", not None', row=FINITE)
def the_model_at_last(model, x):
    return first(hooked(model, x)) or ""
