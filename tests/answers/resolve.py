"""Answers to resolve."""

import functools

import torch
from bank import right, wrong


@right
def by_an_empty_tensor(spec):
    device = torch.device(spec)
    return device if device.type == "cpu" else torch.empty(0, device=device).device


@right
def by_any_tensor(spec):
    return torch.zeros(1, device=spec).device


@right
def by_moving_a_tensor(spec):
    return torch.tensor([1.0]).to(spec).device


@right
def by_the_module_of_the_kind(spec):
    device = torch.device(spec)
    if device.index is not None or device.type == "cpu":
        return device
    module = torch.get_device_module(device)
    index = module.current_device() if hasattr(module, "current_device") else 0
    return torch.device(device.type, index)


@right
def by_the_accelerator(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, torch.accelerator.current_device_index())


@right
def by_kinds(spec):
    device = torch.device(spec)
    if device.index is not None:
        return device
    if device.type == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    if device.type == "cpu":
        return torch.device("cpu")
    return torch.empty(0, device=device.type).device


@right
def with_an_index_for_the_cpu_too(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return torch.device("cpu", 0)
    if device.index is None:
        return torch.device(device.type, torch.accelerator.current_device_index())
    return device


@right
def by_text(spec):
    name = str(spec)
    if name.startswith("cpu"):
        return torch.device("cpu")
    if ":" not in name:
        name = f"{name}:{torch.accelerator.current_device_index()}"
    return torch.device(name)


@right
def by_the_index_of_a_tensor(spec):
    index = torch.ones(1, device=spec).get_device()
    return torch.device("cpu") if index < 0 else torch.device(spec.partition(":")[0], index)


@right
def by_the_current_stream(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.accelerator.current_stream().device


@right
def by_a_layer(spec):
    return torch.nn.Linear(1, 1, device=spec).weight.device


@right
def by_moving_a_layer(spec):
    return next(torch.nn.Linear(1, 1).to(spec).parameters()).device


@right
def by_the_default_device(spec):
    before = torch.get_default_device()
    torch.set_default_device(spec)
    device = torch.get_default_device()
    torch.set_default_device(None if before.type == "cpu" else before)
    return device


@right
def by_a_with_around(spec):
    with torch.device(spec):
        return torch.empty(0).device


@right
def by_the_index_of_the_block(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return device
    if device.type == "cuda":
        return torch.device("cuda", torch.cuda.device(device).idx)
    return torch.stack([torch.empty(0, device=device)]).device


@wrong("changed the default device", row="a name with an index keeps its index")
def leaves_another_default(spec):
    torch.set_default_device(spec)
    return torch.get_default_device()


@wrong("is the current device, and the answer is {device}", row="a bare name becomes the current device")
def always_zero(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, 0)


@wrong("still without an index", row="a bare name becomes the current device")
def only_a_device(spec):
    return torch.device(spec)


@wrong(
    "still without an index",
    row=("a bare name becomes the current device", '"mps" and "xpu", on machines pretended'),
)
def cuda_only(spec):
    device = torch.device(spec)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


@wrong("was asked for, and the answer is", row="a name with an index keeps its index")
def always_the_current_one(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return device
    return torch.device(device.type, torch.accelerator.current_device_index())


@wrong("the answer is a str, not a torch.device", row="a name with an index keeps its index")
def a_string(spec):
    device = torch.device(spec)
    return str(device if device.type == "cpu" else torch.empty(0, device=device).device)


@wrong("the answer is an int, not a torch.device", row="a name with an index keeps its index")
def only_the_index(spec):
    device = torch.device(spec)
    return torch.empty(0, device=device).get_device() if device.index is None else device.index


@right
def by_looking_for_a_colon(spec):
    if ":" in spec or spec == "cpu":
        return torch.device(spec)
    return torch.empty(0, device=spec).device


@wrong("is the current device, and the answer is", row="a bare name becomes the current device")
def the_last_one(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, torch.accelerator.device_count() - 1)


@wrong("{second} was asked for, and the answer is {device}", row="a name with an index keeps its index")
def zero_counts_as_missing(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return device
    return torch.device(device.type, 0 if device.index else torch.accelerator.current_device_index())


@wrong("was asked for, and the answer is", row="a name with an index keeps its index")
def index_zero_counts_as_missing(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return device
    return torch.device(device.type, device.index or torch.accelerator.current_device_index())


@wrong("is the current device, and the answer is {device}", row="a bare name becomes the current device")
@functools.cache
def kept_after_the_first_call(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return device
    return torch.empty(0, device=device).device


AT_IMPORT = torch.accelerator.current_device_index() if torch.accelerator.is_available() else 0


@wrong("is the current device, and the answer is {device}", row="a bare name becomes the current device")
def asked_at_import(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, AT_IMPORT)


@wrong(
    "the answer is", row=("a name with an index keeps its index", "a bare name becomes the current device")
)
def the_cpu_unless_cuda_is_here(spec):
    return torch.device(spec if torch.cuda.is_available() else "cpu")


@wrong(
    "your code raised",
    row=("a bare name becomes the current device", '"mps" and "xpu", on machines pretended'),
)
def by_the_wrong_module(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, torch.cuda.current_device())


@wrong("the answer is None", row="a name with an index keeps its index")
def forgot_the_rest(spec):
    device = torch.device(spec)
    if device.type != "cpu" and device.index is None:
        return torch.empty(0, device=device).device
    return None


@wrong("was asked for, and the answer is", row="a name with an index keeps its index")
def always_the_accelerator(spec):
    if torch.device(spec).type == "cpu":
        return torch.device("cpu")
    return torch.device(
        torch.accelerator.current_accelerator().type, torch.accelerator.current_device_index()
    )


@wrong('"cpu" became', row="the CPU is the CPU")
def the_cpu_is_an_accelerator_too(spec):
    device = torch.device(spec)
    if device.type == "cpu":
        return torch.device("cpu", 1)
    return torch.empty(0, device=device).device


@wrong("your code changed the current device", row="a bare name becomes the current device")
def makes_the_first_one_current(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    torch.accelerator.set_device_index(0)
    return torch.empty(0, device=device).device


@wrong('"cpu" became cpu:1', row="the CPU is the CPU")
def the_accelerators_index_for_all(spec):
    if ":" in spec:
        return torch.device(spec)
    return torch.device(spec, torch.accelerator.current_device_index())


@right
def unless_it_is_on_the_cpu(spec):
    made = torch.empty(0, device=spec)
    return torch.device("cpu") if made.is_cpu else made.device


@right
def of_what_comes_of_it(spec):
    return (torch.zeros(1, device=spec) + 1).device


@right
def of_a_new_one_beside_it(spec):
    return torch.zeros(1, device=spec).new_empty(0).device


@wrong(
    "your code changed the current device of the whole program", row="a name with an index keeps its index"
)
def makes_it_current(spec):
    device = torch.empty(0, device=spec).device
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index)
    return device


@wrong("module 'torch.mps' has no attribute 'current_device'", row='"mps" and "xpu", on machines pretended')
def by_a_module_that_not_every_kind_fills(spec):
    device = torch.device(spec)
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, torch.get_device_module(device).current_device())


@wrong("""and "mps" became 'mps', still without an index""", row='"mps" and "xpu", on machines pretended')
def for_two_kinds_alone(spec):
    device = torch.device(spec)
    if device.type in ("cuda", "sim") and device.index is None:
        return torch.empty(0, device=device).device
    return device


@right
def by_the_default_and_back(spec):
    before = torch.get_default_device()
    named = torch.device(spec)
    if named.type == "cpu" or named.index is not None:
        return named
    try:
        torch.set_default_device(named)
        return torch.empty(0).device
    finally:
        torch.set_default_device(before)


@right
def under_the_device(spec):
    if spec.partition(":")[0] == "cpu":
        return torch.device("cpu")
    with torch.device(spec):
        return torch.empty(0).device


@right
def text_with_index(spec):
    if ":" in spec or spec == "cpu":
        return torch.device(spec)
    return torch.device(f"{spec}:{torch.empty(1, device=spec).get_device()}")


@wrong(
    "your code raised",
    row=("a bare name becomes the current device", '"mps" and "xpu", on machines pretended'),
)
def by_current_device_of_cuda(spec):
    d = torch.device(spec)
    return d if d.index is not None or d.type == "cpu" else torch.device(d.type, torch.cuda.current_device())


@wrong("the answer is a Tensor, not a torch.device", row="a name with an index keeps its index")
def tensor_instead(spec):
    return torch.empty(0, device=spec)


@wrong("cuda:0 was asked for (pretended)", row='"cuda", with three GPUs pretended')
def the_current_gpu_for_any_name_of_cuda(spec):
    device = torch.device(spec)
    if device.type == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return device if device.type == "cpu" else torch.empty(0, device=device).device


@wrong("your code changed the current device", row='"cuda", with three GPUs pretended')
def makes_the_gpu_current(spec):
    device = torch.device(spec)
    if device.type != "cuda":
        return device if device.type == "cpu" else torch.empty(0, device=device).device
    if device.index is not None:
        torch.cuda.set_device(device)
    return torch.device("cuda", torch.cuda.current_device())


@wrong("is current, whatever the default device is", row="a bare name becomes the current device")
def the_default_device_first(spec):
    default = torch.get_default_device()
    if default.type == spec and spec != "cpu":
        return default
    device = torch.device(spec)
    return device if device.type == "cpu" else torch.empty(0, device=device).device


@wrong("""and "mps:0" became 'mps', still without an index""", row='"mps" and "xpu", on machines pretended')
def no_index_for_mps(spec):
    kind, _, index = spec.partition(":")
    if kind == "mps":
        return torch.device("mps", None if index else 0)
    return torch.device(kind) if kind == "cpu" else torch.empty(0, device=spec).device


@right
def of_a_parameter(spec):
    return torch.nn.Parameter(torch.empty(0, device=spec)).device


@right
def by_the_parts_of_its_name(spec):
    kind, _, number = spec.partition(":")
    if kind == "cpu":
        return torch.device("cpu")
    return torch.device(kind, int(number) if number else torch.accelerator.current_device_index())


@right
def of_a_range(spec):
    return torch.arange(2, device=spec).device
