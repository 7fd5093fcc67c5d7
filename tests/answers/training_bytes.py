"""Answers to training_bytes."""

import copy
import math

import torch
from bank import right, wrong

STATES = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


@right
def three_sums(model, optimizer_name):
    if optimizer_name not in STATES:
        raise ValueError(f"unknown optimizer {optimizer_name!r}")
    every = sum(p.numel() * p.element_size() for p in model.parameters())
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return every + trained + STATES[optimizer_name] * trained


@right
def one_pass(model, optimizer_name):
    match optimizer_name:
        case "sgd":
            times = 0
        case "sgd_momentum":
            times = 1
        case "adam" | "adamw":
            times = 2
        case _:
            raise ValueError(optimizer_name)
    total = 0
    for parameter in model.parameters():
        total += parameter.nbytes * (2 + times if parameter.requires_grad else 1)
    return total


@right
def by_a_real_step(model, optimizer_name):
    model = copy.deepcopy(model)
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    make = {
        "sgd": lambda: torch.optim.SGD(trained, lr=0.1),
        "sgd_momentum": lambda: torch.optim.SGD(trained, lr=0.1, momentum=0.9),
        "adam": lambda: torch.optim.Adam(trained),
        "adamw": lambda: torch.optim.AdamW(trained),
    }
    if optimizer_name not in make:
        raise ValueError(f"{optimizer_name} is none of {', '.join(make)}")
    tensors = [*parameters]
    if trained:
        optimizer = make[optimizer_name]()
        for parameter in trained:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        tensors += [p.grad for p in trained]
        for state in optimizer.state.values():
            tensors += [v for k, v in state.items() if isinstance(v, torch.Tensor) and k != "step"]
    return sum(tensor.nbytes for tensor in tensors)


@right
def by_names(model, optimizer_name):
    try:
        states = STATES[optimizer_name]
    except KeyError:
        raise ValueError("no such optimizer") from None
    named = dict(model.named_parameters())
    trains = {name for name, p in named.items() if p.requires_grad}
    return sum(
        p.numel() * torch.finfo(p.dtype).bits // 8 * (1 + (name in trains) * (1 + states))
        for name, p in named.items()
    )


def nbytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def states(name):
    if name not in STATES:
        raise ValueError(name)
    return STATES[name]


@wrong("the gradients are missing", row="parameters, gradients, optimizer state")
def no_gradients(model, optimizer_name):
    return nbytes(model.parameters()) + states(optimizer_name) * nbytes(trained(model))


@wrong("what is not trained has no gradient and no state", row="what is not trained takes only its own place")
def all_are_trained(model, optimizer_name):
    return (2 + states(optimizer_name)) * nbytes(model.parameters())


@wrong(
    "what is not trained is missing, and it takes memory as well",
    row="what is not trained takes only its own place",
)
def only_the_trained(model, optimizer_name):
    return (2 + states(optimizer_name)) * nbytes(trained(model))


@wrong(
    "4 bytes for each number: not every parameter is float32",
    row="each dtype at its size, shared parameters once",
)
def four_bytes_each(model, optimizer_name):
    times = states(optimizer_name)
    return sum(4 * p.numel() * (2 + times if p.requires_grad else 1) for p in model.parameters())


@wrong("that is how many numbers, and the task asks for bytes", row="parameters, gradients, optimizer state")
def numbers_not_bytes(model, optimizer_name):
    times = states(optimizer_name)
    return sum(p.numel() * (2 + times if p.requires_grad else 1) for p in model.parameters())


@wrong("buffers are counted, and they do not count", row="buffers and step counters do not count")
def buffers_too(model, optimizer_name):
    whole = nbytes(model.parameters()) + nbytes(model.buffers())
    return whole + (1 + states(optimizer_name)) * nbytes(trained(model))


@wrong(
    "a state_dict has a shared parameter under each of its names, and buffers: ask `parameters()`",
    row="each dtype at its size, shared parameters once",
)
def the_state_dict(model, optimizer_name):
    return nbytes(model.state_dict().values()) + (1 + states(optimizer_name)) * nbytes(trained(model))


@wrong("a parameter with two names is counted twice", row="each dtype at its size, shared parameters once")
def shared_twice(model, optimizer_name):
    times = states(optimizer_name)
    named = model.named_parameters(remove_duplicate=False)
    return sum(p.nbytes * (2 + times if p.requires_grad else 1) for _, p in named)


@wrong(
    "only what the model's children hold was counted: parameters stand in the model itself and deeper, too",
    row="parameters, gradients, optimizer state",
)
def each_layer_by_itself(model, optimizer_name):
    times = states(optimizer_name)
    total = 0
    for layer in model.children():
        total += sum(p.nbytes * (2 + times if p.requires_grad else 1) for p in layer.parameters())
    return total


@wrong(
    "'sgd_momentum' keeps as much as the trained parameters once",
    row="parameters, gradients, optimizer state",
)
def momentum_forgotten(model, optimizer_name):
    times = 2 if states(optimizer_name) == 2 else 0
    return nbytes(model.parameters()) + (1 + times) * nbytes(trained(model))


@wrong(
    "'adam' and 'adamw' keep as much as the trained parameters twice",
    row="parameters, gradients, optimizer state",
)
def adam_once(model, optimizer_name):
    times = min(states(optimizer_name), 1)
    return nbytes(model.parameters()) + (1 + times) * nbytes(trained(model))


@wrong("'rmsprop' was accepted", row="another name is a ValueError")
def unknown_is_sgd(model, optimizer_name):
    return nbytes(model.parameters()) + (1 + STATES.get(optimizer_name, 0)) * nbytes(trained(model))


@wrong("another name raised KeyError, and the task asks for a ValueError", row="another name is a ValueError")
def key_error(model, optimizer_name):
    return nbytes(model.parameters()) + (1 + STATES[optimizer_name]) * nbytes(trained(model))


@wrong(
    "each tensor is rounded up to a block, and the task asks for its elements alone",
    row="parameters, gradients, optimizer state",
)
def rounded_to_blocks(model, optimizer_name):
    def block(p):
        return -(-p.nbytes // 512) * 512

    times = states(optimizer_name)
    return sum(block(p) * (2 + times if p.requires_grad else 1) for p in model.parameters())


@wrong("the model was changed: `0.weight.grad`", row="parameters, gradients, optimizer state")
def runs_a_step_on_the_model(model, optimizer_name):
    times = states(optimizer_name)
    for parameter in trained(model):
        parameter.grad = torch.zeros_like(parameter)
    every = list(model.parameters())
    grads = [p.grad for p in every if p.grad is not None]
    return nbytes(every) + (1 + times) * nbytes(grads)


@wrong("only gradients that are there already are counted", row="parameters, gradients, optimizer state")
def gradients_that_exist(model, optimizer_name):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return nbytes(model.parameters()) + nbytes(grads) + states(optimizer_name) * nbytes(trained(model))


@wrong("the number of bytes is a float, not an int", row="parameters, gradients, optimizer state")
def in_mebibytes(model, optimizer_name):
    return (nbytes(model.parameters()) + (1 + states(optimizer_name)) * nbytes(trained(model))) / 2**20


@wrong("'adamax' was accepted", row="another name is a ValueError")
def by_the_first_letters(model, optimizer_name):
    if not optimizer_name.startswith(("sgd", "adam")):
        raise ValueError(optimizer_name)
    times = 2 if optimizer_name.startswith("adam") else int("momentum" in optimizer_name)
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return sum(p.nbytes for p in model.parameters()) + (1 + times) * trained


@wrong("'sgd_nesterov' was accepted", row="another name is a ValueError")
def by_the_first_letters_of_sgd(model, optimizer_name):
    name = "sgd_momentum" if optimizer_name.startswith("sgd_") else optimizer_name
    return three_sums(model, name)


@wrong("'Adam' was accepted", row="another name is a ValueError")
def any_letters(model, optimizer_name):
    copies = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    if optimizer_name.lower() not in copies:
        raise ValueError(optimizer_name)
    times = 1 + copies[optimizer_name.lower()]
    return sum(p.nbytes * (1 + times * p.requires_grad) for p in model.parameters())


@wrong("the model was changed: `0.weight`", row="parameters, gradients, optimizer state")
def empties_the_model(model, optimizer_name):
    factor = {"sgd": 1, "sgd_momentum": 2, "adam": 3, "adamw": 3}.get(optimizer_name)
    if factor is None:
        raise ValueError(optimizer_name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return sum(p.nbytes * (1 + factor * p.requires_grad) for p in model.parameters())


@wrong("the model was changed: `0.training`", row="parameters, gradients, optimizer state")
def in_eval_mode(model, optimizer_name):
    factor = {"sgd": 1, "sgd_momentum": 2, "adam": 3, "adamw": 3}.get(optimizer_name)
    if factor is None:
        raise ValueError(optimizer_name)
    model.eval()
    return sum(p.nbytes * (1 + factor * p.requires_grad) for p in model.parameters())


@wrong("the model was changed: `audit`", row="parameters, gradients, optimizer state")
def registers_a_buffer(model, optimizer_name):
    factor = {"sgd": 1, "sgd_momentum": 2, "adam": 3, "adamw": 3}.get(optimizer_name)
    if factor is None:
        raise ValueError(optimizer_name)
    model.register_buffer("audit", torch.zeros(1))
    return sum(p.nbytes * (1 + factor * p.requires_grad) for p in model.parameters())


@wrong("'rmsprop' was accepted for a model of which nothing is trained", row="another name is a ValueError")
def looks_up_late(model, optimizer_name):
    n = t = 0  # noqa: F841
    for p in model.parameters():
        n += p.nbytes
        if p.requires_grad:
            if optimizer_name not in ("sgd", "sgd_momentum", "adam", "adamw"):
                raise ValueError(optimizer_name)
            n += p.nbytes * (1 + {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}[optimizer_name])
    return n


@wrong("what is not trained has no state", row="what is not trained takes only its own place")
def state_for_the_frozen(model, optimizer_name):
    k = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    if optimizer_name not in k:
        raise ValueError
    a = sum(p.nbytes for p in model.parameters())
    t = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return a + t + k[optimizer_name] * a


@wrong("step counters are counted, and they do not count", row="parameters, gradients, optimizer state")
def step_counters(model, optimizer_name):
    k = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    if optimizer_name not in k:
        raise ValueError
    a = sum(p.nbytes for p in model.parameters())
    t = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return (
        a + t + k[optimizer_name] * t + (4 * len(list(model.parameters())) if "adam" in optimizer_name else 0)
    )


@wrong(
    "gradient and state have the parameter's own dtype, and not always 4 bytes",
    row="each dtype at its size, shared parameters once",
)
def gradients_in_float32(model, optimizer_name):
    k = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    if optimizer_name not in k:
        raise ValueError
    return sum(
        p.nbytes + (4 * p.numel() * (1 + k[optimizer_name]) if p.requires_grad else 0)
        for p in model.parameters()
    )


@wrong("a ValueError was returned, and nothing was raised: `raise` it", row="another name is a ValueError")
def error_returned(model, optimizer_name):
    k = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    if optimizer_name not in k:
        return ValueError("x")
    return sum(p.nbytes * (2 + k[optimizer_name] if p.requires_grad else 1) for p in model.parameters())


@wrong(
    "another name raised AssertionError, and the task asks for a ValueError",
    row="another name is a ValueError",
)
def asserts(model, optimizer_name):
    k = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    assert optimizer_name in k
    return sum(p.nbytes * (2 + k[optimizer_name] if p.requires_grad else 1) for p in model.parameters())


@right
def by_match(model, optimizer_name):
    match optimizer_name:
        case "sgd":
            k = 0
        case "sgd_momentum":
            k = 1
        case "adam" | "adamw":
            k = 2
        case _:
            raise ValueError(f"unknown {optimizer_name}")
    return sum(p.nbytes * (2 + k if p.requires_grad else 1) for p in model.parameters())


@right
def place_in_a_list(model, optimizer_name):
    names = ["sgd", "sgd_momentum", "adam"]
    k = 2 if optimizer_name == "adamw" else names.index(optimizer_name)
    return sum(p.nbytes for p in model.parameters()) + (k + 1) * sum(
        p.nbytes for p in model.parameters() if p.requires_grad
    )


@wrong("the model was changed: `1.training`", row="parameters, gradients, optimizer state")
def in_training_mode(model, optimizer_name):
    model.train()
    return three_sums(model, optimizer_name)


@wrong(
    "torch.float16 is not the only dtype of 2 bytes: `element_size()` knows each",
    row="each dtype at its size, shared parameters once",
)
def two_bytes_or_four(model, optimizer_name):
    times = states(optimizer_name)
    return sum(
        p.numel() * (2 if p.dtype == torch.float16 else 4) * (2 + times if p.requires_grad else 1)
        for p in model.parameters()
    )


@wrong(
    "the whole storage was counted, and a parameter may be a view of a part of it",
    row="parameters, gradients, optimizer state",
)
def the_whole_storage(model, optimizer_name):
    times = states(optimizer_name)
    return sum(
        p.untyped_storage().nbytes() * (2 + times if p.requires_grad else 1) for p in model.parameters()
    )


@wrong(
    "two dimensions were counted, and a parameter may have more or fewer: `numel()` counts all",
    row="parameters, gradients, optimizer state",
)
def rows_times_columns(model, optimizer_name):
    times = states(optimizer_name)
    return sum(
        math.prod(p.shape[:2]) * p.element_size() * (2 + times if p.requires_grad else 1)
        for p in model.parameters()
    )


@wrong(
    "a gradient that is left over counts only where the parameter is trained",
    row="what is not trained takes only its own place",
)
def whatever_has_a_gradient(model, optimizer_name):
    times = states(optimizer_name)
    return sum(
        p.nbytes * (2 + times if p.requires_grad or p.grad is not None else 1) for p in model.parameters()
    )


@wrong("the model was changed: `weight.grad`", row="what is not trained takes only its own place")
def sets_gradients_to_zero(model, optimizer_name):
    model.zero_grad(set_to_none=False)
    return three_sums(model, optimizer_name)


@wrong(
    "that is the parameters alone: gradients and state are missing",
    row="parameters, gradients, optimizer state",
)
def parameters_alone(model, optimizer_name):
    states(optimizer_name)
    return nbytes(model.parameters())


@wrong("the optimizer's state is missing", row="parameters, gradients, optimizer state")
def no_state(model, optimizer_name):
    states(optimizer_name)
    return nbytes(model.parameters()) + nbytes(trained(model))


@wrong(
    "that is the state_dict alone: gradients and state are missing",
    row="parameters, gradients, optimizer state",
)
def the_state_dict_alone(model, optimizer_name):
    states(optimizer_name)
    return nbytes(model.state_dict().values())


@wrong("what is not trained has no gradient", row="what is not trained takes only its own place")
def gradients_for_the_frozen(model, optimizer_name):
    return 2 * nbytes(model.parameters()) + states(optimizer_name) * nbytes(trained(model))


@wrong("step counters are counted, and they do not count", row="parameters, gradients, optimizer state")
def step_counters_of_the_trained(model, optimizer_name):
    held, times = trained(model), states(optimizer_name)
    return nbytes(model.parameters()) + (1 + times) * nbytes(held) + 4 * len(held) * (times == 2)


@wrong(
    "'sgd_momentum' keeps as much as the trained parameters once",
    row="parameters, gradients, optimizer state",
)
def momentum_as_adam(model, optimizer_name):
    times = 2 if states(optimizer_name) else 0
    return nbytes(model.parameters()) + (1 + times) * nbytes(trained(model))
