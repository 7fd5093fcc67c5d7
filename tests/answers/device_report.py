"""Answers to device_report."""

import itertools

import torch
from bank import right, wrong


@right
def both_walks(model):
    report = {name: parameter.device for name, parameter in model.named_parameters()}
    report.update({name: buffer.device for name, buffer in model.named_buffers()})
    return report


@right
def chained(model):
    pairs = itertools.chain(model.named_parameters(), model.named_buffers())
    return {name: tensor.device for name, tensor in pairs}


@right
def buffers_first(model):
    report = {}
    for walk in (model.named_buffers, model.named_parameters):
        for name, tensor in walk():
            report[name] = tensor.device
    return report


@right
def part_by_part(model):
    report, seen = {}, set()
    for path, part in model.named_modules():
        own = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
        for name, tensor in own:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                report[f"{path}.{name}" if path else name] = tensor.device
    return report


@right
def with_both_names_of_a_tied_one(model):
    named = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    return {name: tensor.device for name, tensor in named}


@right
def by_recursion(model):
    report = {}

    def visit(part, prefix):
        for table in (part._parameters, part._buffers):
            report.update({prefix + key: value.device for key, value in table.items() if value is not None})
        for key, child in part.named_children():
            visit(child, f"{prefix}{key}.")

    visit(model, "")
    return report


@wrong("`1.running_mean` is not in the report", row="every buffer, saved or not")
def parameters_only(model):
    return {name: parameter.device for name, parameter in model.named_parameters()}


@wrong("`0.weight` is not in the report", row="every parameter, by its dotted name")
def buffers_only(model):
    return {name: buffer.device for name, buffer in model.named_buffers()}


@wrong("`steps` is not in the report", row="every buffer, saved or not")
def what_is_saved(model):
    return {name: tensor.device for name, tensor in model.state_dict().items()}


@wrong("`0.weight` is not in the report", row="every parameter, by its dotted name")
def top_level(model):
    pairs = [*model.named_parameters(recurse=False), *model.named_buffers(recurse=False)]
    return {name: tensor.device for name, tensor in pairs}


@wrong("is a str, not a torch.device", row="every parameter, by its dotted name")
def as_text(model):
    return {name: str(device) for name, device in both_walks(model).items()}


@wrong("the report is a list, not a dict", row="every parameter, by its dotted name")
def pairs(model):
    return list(both_walks(model).items())


@wrong("is reported on another device than its own", row="every buffer, saved or not")
def the_first_for_all(model):
    home = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return dict.fromkeys(both_walks(model), home)


@wrong("your code raised StopIteration", row="every buffer, saved or not")
def the_first_of_any(model):
    home = next(model.parameters()).device
    return dict.fromkeys(both_walks(model), home)


@wrong("is not in the report", row="every parameter, by its dotted name")
def trained_ones(model):
    trained = {name: p.device for name, p in model.named_parameters() if p.requires_grad}
    return trained | {name: buffer.device for name, buffer in model.named_buffers()}


@wrong("is not in the report", row="every parameter, by its dotted name")
def last_names(model):
    return {name.rpartition(".")[2]: device for name, device in both_walks(model).items()}


@wrong("is reported, but it is no parameter and no buffer", row="and nothing else")
def attributes_too(model):
    plain = {key: value.device for key, value in vars(model).items() if isinstance(value, torch.Tensor)}
    return both_walks(model) | plain


@wrong("is reported on another device than its own", row="every parameter, by its dotted name")
def without_the_index(model):
    return {name: torch.device(device.type) for name, device in both_walks(model).items()}


@wrong("the model was changed", row="every parameter, by its dotted name")
def after_a_move(model):
    report = both_walks(model)
    model.to("cpu" if any(device.type != "cpu" for device in report.values()) else "meta")
    return report


@wrong("the report is None: is a `return` missing?", row="every parameter, by its dotted name")
def prints(model):
    for name, parameter in model.named_parameters():
        print(name, parameter.device)


@wrong("your code raised AttributeError", row="every parameter, by its dotted name")
def asks_the_modules(model):
    return {name: part.weight.device for name, part in model.named_modules()}


@wrong("is not in the report", row="every buffer, saved or not")
def by_the_state_dict_below(model):
    found = {name: one.device for name, one in model.state_dict().items()}
    return found | {name: one.device for name, one in model.named_buffers(recurse=False)}


@wrong("is not in the report", row="every buffer, saved or not")
def by_address(model):
    seen = {}
    for name, one in [*model.named_parameters(), *model.named_buffers()]:
        seen.setdefault(one.data_ptr(), (name, one.device))
    return dict(seen.values())


@wrong("the model was changed", row="every buffer, saved or not")
def leaves_training_mode_on(model):
    model.eval()
    found = {name: one.device for name, one in [*model.named_parameters(), *model.named_buffers()]}
    model.train()
    return found


@wrong("the model was changed", row="every buffer, saved or not")
def zeroes_the_buffers(model):
    found = {name: one.device for name, one in [*model.named_parameters(), *model.named_buffers()]}
    for buffer in model.buffers():
        buffer.zero_()
    return found


@wrong("the model was changed: looking must change nothing", row="every parameter, by its dotted name")
def leaves_a_hook(model):
    model.register_forward_hook(lambda *_: None)
    return both_walks(model)


@wrong("the model was changed: looking must change nothing", row="every parameter, by its dotted name")
def keeps_its_report_in_the_model(model):
    model.report = both_walks(model)
    return model.report


@wrong("is reported on another device", row="every buffer, saved or not")
def buffers_where_the_first_is(model):
    o = {n: t.device for n, t in model.named_parameters()}
    d = next(iter(o.values()), torch.device("cpu"))
    o.update({n: d for n, _ in model.named_buffers()})
    return o


@wrong("it is no parameter and no buffer", row="and nothing else")
def with_plain_attributes(model):
    o = {n: t.device for n, t in [*model.named_parameters(), *model.named_buffers()]}
    o.update({n: t.device for n, t in vars(model).items() if isinstance(t, torch.Tensor)})
    return o


@wrong("is not in the report", row="every parameter, by its dotted name")
def names_by_device(model):
    o = {}
    for n, t in [*model.named_parameters(), *model.named_buffers()]:
        o.setdefault(t.device, []).append(n)
    return o


@wrong("is a Parameter, not a torch.device", row="every parameter, by its dotted name")
def the_tensors(model):
    return dict([*model.named_parameters(), *model.named_buffers()])


@right
def module_by_module(model):
    o = {}
    for m, mod in model.named_modules():
        for n, t in [*mod._parameters.items(), *mod._buffers.items()]:
            if t is not None:
                o[f"{m}.{n}" if m else n] = t.device
    return o


@wrong("`2.0.0.0.weight` is not in the report", row="every parameter, by its dotted name")
def two_levels_deep(model):
    parts = [("", model), *((f"{name}.", child) for name, child in model.named_children())]
    parts += [(f"{path}{name}.", child) for path, part in parts[1:] for name, child in part.named_children()]
    return {
        path + name: tensor.device
        for path, part in parts
        for name, tensor in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
    }


@wrong("`2.head.bias` is reported on another device than its own", row="each on its own device")
def asks_each_layer_once(model):
    found = {name: buffer.device for name, buffer in model.named_buffers()}
    for path, part in model.named_modules():
        own = dict(part.named_parameters(prefix=path, recurse=False))
        found |= {name: next(iter(own.values())).device for name in own}
    return found
