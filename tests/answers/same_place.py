"""Answers to same_place."""

import torch
from bank import right, wrong


def full(x):
    device = x.device if isinstance(x, torch.Tensor) else torch.device(x)
    return torch.empty(0, device=device.type if device.type == "cpu" else device).device


@right
def by_making_an_empty_tensor(a, b):
    return full(a) == full(b)


@right
def by_type_and_index(a, b):
    def address(x):
        device = torch.device(getattr(x, "device", x))
        if device.type == "cpu":
            return ("cpu", 0)
        if device.index is None:
            return (device.type, torch.get_device_module(device).current_device())
        return (device.type, device.index)

    return address(a) == address(b)


@right
def by_moving_nothing_there(a, b):
    def device(x):
        if isinstance(x, torch.Tensor):
            return x.device
        return torch.zeros(()).to(x).device if torch.device(x).type != "cpu" else torch.device("cpu")

    return device(a) == device(b)


@right
def with_the_accelerator_interface(a, b):
    def index(device):
        if device.type == "cpu":
            return 0
        return torch.accelerator.current_device_index() if device.index is None else device.index

    one, other = (x.device if hasattr(x, "device") else torch.device(x) for x in (a, b))
    return one.type == other.type and index(one) == index(other)


@wrong("{device} and {second} are two places", row="two tensors on different devices")
def types_only(a, b):
    def kind(x):
        return x.device.type if isinstance(x, torch.Tensor) else torch.device(x).type

    return kind(a) == kind(b)


@wrong("while that is the current device", row="a bare name means the current device")
def strings(a, b):
    def name(x):
        return str(x.device) if isinstance(x, torch.Tensor) else str(x)

    return name(a) == name(b)


@wrong("shapes and dtypes differ, but the place is the same", row="two tensors on one device")
def tries_and_catches(a, b):
    try:
        a + b
    except RuntimeError:
        return False
    return True


@wrong("has no attribute 'device'", row="devices and names, alone or mixed")
def tensors_only(a, b):
    return a.device == b.device


@wrong("while that is the current device", row="a bare name means the current device")
def equal_devices(a, b):
    def device(x):
        return x.device if isinstance(x, torch.Tensor) else torch.device(x)

    return device(a) == device(b)


@wrong("the answer is None", row="two tensors on one device")
def prints(a, b):
    print(a, b)


@wrong("a tensor is at its own device's address", row="devices and names, alone or mixed")
def identity(a, b):
    return a is b or (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.device == b.device)


@wrong("the answer is a str, not a bool", row="two tensors on one device")
def words(a, b):
    return "same" if full(a) == full(b) else "different"


@wrong("while that is the current device", row="a bare name means the current device")
def bare_is_always_zero(a, b):
    def address(x):
        device = x.device if isinstance(x, torch.Tensor) else torch.device(x)
        return (device.type, device.index or 0)

    return address(a) == address(b)


@wrong('"cpu" and "cpu:0" are one place', row="the CPU is one place, with index or without")
def cpu_with_an_index_forgotten(a, b):
    def address(x):
        device = x.device if isinstance(x, torch.Tensor) else torch.device(x)
        if device.type != "cpu" and device.index is None:
            return torch.device(device.type, torch.accelerator.current_device_index())
        return device

    return address(a) == address(b)


@wrong("is a str, not a bool", row="two tensors on one device")
def the_shared_name(a, b):
    return full(a) == full(b) and str(full(a))


def _address(x):
    device = x.device if isinstance(x, torch.Tensor) else torch.empty(0, device=x).device
    return device.type, device.index or 0


@wrong("your code changed the default dtype of the whole program", row="two tensors on one device")
def leaves_another_dtype(a, b):
    torch.set_default_dtype(torch.float64)
    return _address(a) == _address(b)


@wrong(
    "your code changed the current device of the whole program",
    row=("two tensors on one device", "a bare name means the current device"),
)
def leaves_another_device_current(a, b):
    one, other = _address(a), _address(b)
    if other[0] != "cpu":
        torch.accelerator.set_device_index(other[1])
    return one == other


@wrong("while that is the current device", row="a bare name means the current device")
def bare_names_alone(a, b):
    def place(x):
        if isinstance(x, torch.Tensor | torch.device):
            x = x if isinstance(x, torch.device) else x.device
            return torch.device("cpu") if x.type == "cpu" else x
        return place(torch.empty(0, device=x))

    return place(a) == place(b)


@wrong('"cpu" and "cpu:0" are one place', row="the CPU is one place, with index or without")
def the_cpu_by_the_accelerators_index(a, b):
    def place(x):
        device = torch.device(getattr(x, "device", x))
        if device.index is None and not isinstance(x, torch.Tensor):
            return (
                device.type,
                torch.accelerator.current_device_index() if torch.accelerator.is_available() else 0,
            )
        return device.type, device.index or 0

    return place(a) == place(b)


def address(x):
    d = x.device if isinstance(x, torch.Tensor) else torch.device(x)
    if d.type != "cpu" and d.index is None:
        d = torch.device(d.type, torch.accelerator.current_device_index())
    return (d.type, None if d.type == "cpu" else d.index)


@right
def by_pairs(a, b):
    return address(a) == address(b)


@right
def by_zeros_there(a, b):

    def there(x):
        x = x if isinstance(x, torch.Tensor) else torch.zeros(0, device=x)
        return (x.device.type, x.get_device() if not x.is_cpu else 0)

    return there(a) == there(b)


@right
def in_a_set(a, b):
    return len({address(a), address(b)}) == 1


@right
def type_then_index(a, b):
    (kind, one), (other, two) = (address(a), address(b))
    return kind == other and one == two


@wrong("your code changed the default device of the whole program", row="devices and names, alone or mixed")
def takes_the_default_back(a, b):

    def there(x):
        if isinstance(x, torch.Tensor):
            return x.device
        if torch.device(x).type == "cpu":
            return torch.device("cpu")
        torch.set_default_device(x)
        found = torch.empty(0).device
        torch.set_default_device(None)
        return found

    return there(a) == there(b)


@wrong(
    "AttributeError: 'torch.device' object has no attribute 'get_device'",
    row="devices and names, alone or mixed",
)
def get_device(a, b):
    return a.get_device() == b.get_device()


@wrong("the answer is a Tensor, not a bool", row="two tensors on one device")
def as_tensors_eq(a, b):
    return torch.tensor(str(a) == str(b))


@wrong("while that is the current device", row="a bare name means the current device")
def two_names_by_their_text(a, b):
    if isinstance(a, str) and isinstance(b, str):
        return a == b or a[:3] == b[:3] == "cpu"
    return address(a) == address(b)


@wrong("while that is the current device", row="a bare name means the current device")
def two_names_by_their_kind(a, b):
    if isinstance(a, str) and isinstance(b, str):
        return a.partition(":")[0] == b.partition(":")[0]
    return address(a) == address(b)


@wrong("while that is the current device", row="a bare name means the current device")
def a_bare_device_beside_a_tensor(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.device):
        return a.device == b or a.device.type == b.type == "cpu"
    return address(a) == address(b)


@wrong("while that is the current device", row="a bare name means the current device")
def a_bare_device_before_a_tensor(a, b):
    if isinstance(b, torch.Tensor) and isinstance(a, torch.device):
        return a == b.device or a.type == b.device.type == "cpu"
    return address(a) == address(b)


@wrong("while that is the current device", row="a bare name means the current device")
def a_bare_name_before_a_tensor(a, b):
    if isinstance(b, torch.Tensor) and isinstance(a, str):
        return torch.device(a) == b.device or (b.is_cpu and a[:3] == "cpu")
    return address(a) == address(b)


@wrong("while that is the current device", row="a bare name means the current device")
def a_bare_name_after_a_device(a, b):
    if isinstance(a, torch.device) and isinstance(b, str):
        return a == torch.device(b) or a.type == b[:3] == "cpu"
    return address(a) == address(b)


@wrong("TypeError", row="two tensors on one device")
def tensors_of_the_plain_class_alone(a, b):
    def there(x):
        device = x.device if type(x) is torch.Tensor else torch.device(x)
        return torch.device("cpu") if device.type == "cpu" else torch.empty(0, device=device).device

    return there(a) == there(b)


@wrong(
    "means {device}, the current device, whatever the default device is",
    row="a bare name means the current device",
)
def the_default_device_for_a_bare_name(a, b):
    def there(x):
        default = torch.get_default_device()
        return default if default.type == x else full(x)

    return there(a) == there(b)


@right
def in_a_class_of_its_own(a, b):
    class Place:
        def __init__(self, x):
            device = x.device if torch.is_tensor(x) else torch.device(x)
            self.kind, self.index = device.type, device.index
            if device.type == "cpu":
                self.index = 0
            elif self.index is None:
                self.index = torch.accelerator.current_device_index()

        def __eq__(self, other):
            return (self.kind, self.index) == (other.kind, other.index)

    return Place(a) == Place(b)


@right
def as_texts(a, b):
    def text(x):
        name = str(x.device) if isinstance(x, torch.Tensor) else str(x)
        if name.startswith("cpu"):
            return "cpu"
        return name if ":" in name else f"{name}:{torch.accelerator.current_device_index()}"

    return text(a) == text(b)
