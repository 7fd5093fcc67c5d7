"""Programs to be watched, each with what any accelerator must count for it; 'dev' stands for the device."""

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

IN, OUT = ("cpu", "dev"), ("dev", "cpu")


@dataclass
class Program:
    """A function of the device, run outside the watch, that returns the function to watch."""

    prepare: Callable
    transfers: list = ()  # (from, to, bytes)
    waits: list = ()  # causes
    launches: list | None = None  # operators; None: another test looks at them


def reading(
    read: Callable, cause: str, make: Callable = lambda device: torch.tensor(3.0, device=device)
) -> Program:
    """A program that reads one value."""

    def prepare(device):
        x = make(device)
        return lambda: read(x)

    size = make("cpu").itemsize
    return Program(prepare, [(*OUT, size)], [cause], [])


def vector(device, n: int = 6):
    """A small vector with some signs."""
    return (torch.arange(n, dtype=torch.float32) - 2).to(device)


def on(function: Callable) -> Callable:
    """Prepare a vector on the device."""

    def prepare(device):
        x = vector(device)
        return lambda: function(x)

    return prepare


def from_cpu(function: Callable) -> Callable:
    """Prepare a vector on the CPU."""

    def prepare(device):
        x = vector("cpu")
        return lambda: function(x, device)

    return prepare


def masked(function: Callable) -> Callable:
    """Prepare a vector on the device and a mask beside it."""

    def prepare(device):
        x = vector(device)
        mask = x > 0
        return lambda: function(x, mask)

    return prepare


def layer(device):
    """A linear layer that is to be moved."""
    model = nn.Linear(3, 2)
    return lambda: model.to(device)


def moved_layer_with_gradients(device):
    """A layer whose gradients move with it."""
    model = nn.Linear(3, 2)
    model(torch.ones(1, 3)).sum().backward()
    return lambda: model.to(device)


def backward(device):
    """Forward and backward through a matrix product."""
    w = torch.ones(3, 2).to(device).requires_grad_()
    x = torch.ones(4, 3).to(device)
    return lambda: (x @ w).sum().backward()


def training_step(device):
    """A whole step, whose loss stays on the device."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def step():
        loss = functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def inference(device):
    """Composite operators arrive whole in inference mode, and must count as elsewhere."""
    x = torch.ones(4, 3)
    w = torch.ones(2, 3).to(device)

    def run():
        with torch.inference_mode():
            return functional.linear(x.to(device), w).sum().item()

    return run


def old_cholesky(x):
    """The decomposition that PyTorch 2.14 has no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.cholesky(x)


def hidden_index(device):
    """An index that is still on the CPU is copied to the device, silently."""
    x, index = vector(device), torch.tensor([0, 3])
    return lambda: x[index]


def load(device):
    """A file's tensors are copied to the device on which they are wanted, one storage after the other."""
    file = io.BytesIO()
    torch.save(nn.Linear(3, 2).state_dict(), file)

    def run():
        file.seek(0)
        return torch.load(file, map_location=str(device))

    return run


def read_back_late(device):
    """A non-blocking copy to the CPU does not wait: what it arrives in is pinned."""
    x = vector(device)
    return lambda: x.to("cpu", non_blocking=True)


def overwrite(device):
    """A copy into an existing tensor."""
    x, y = vector(device), vector("cpu")
    return lambda: x.copy_(y)


def events(device):
    """Waiting for one event."""
    module = torch.get_device_module(device)
    event = module.Event()

    def run():
        event.record()
        event.synchronize()

    return run


PROGRAMS = {
    "to the device": Program(from_cpu(lambda x, d: x.to(d)), [(*IN, 24)], [], []),
    "to where it is": Program(on(lambda x: x.to(x.device)), [], [], []),
    "narrowed before it leaves": Program(from_cpu(lambda x, d: x.to(d, torch.float16)), [(*IN, 12)], [], []),
    "widened before it leaves": Program(from_cpu(lambda x, d: x.to(d, torch.float64)), [(*IN, 48)], [], []),
    "narrowed there": Program(
        from_cpu(lambda x, d: x.to(d, torch.float16, non_blocking=True)), [(*IN, 24)], [], []
    ),
    "widened there": Program(
        from_cpu(lambda x, d: x.to(d, torch.float64, non_blocking=True)), [(*IN, 24)], [], []
    ),
    "staged": Program(from_cpu(lambda x, d: x.to(d, non_blocking=True)), [(*IN, 24)], [], []),
    "narrowed at home": Program(on(lambda x: x.to("cpu", torch.float16)), [(*OUT, 24)], [".to()"], []),
    "narrowed before it comes home": Program(
        on(lambda x: x.to("cpu", torch.float16, non_blocking=True)), [(*OUT, 12)], [], []
    ),
    "expanded on the way": Program(on(lambda x: x.copy_(torch.ones(1))), [(*IN, 24)], [], []),
    "made on the device": Program(from_cpu(lambda x, d: torch.zeros(3, device=d)), [], [], ["zeros"]),
    "from Python's values": Program(
        from_cpu(lambda x, d: torch.tensor([1.0, 2.0], device=d)), [(*IN, 8)], [], []
    ),
    "back": Program(on(lambda x: x.cpu()), [(*OUT, 24)], [".cpu()"], []),
    "back by to": Program(on(lambda x: x.to("cpu")), [(*OUT, 24)], [".to()"], []),
    "back, not waiting": Program(read_back_late, [(*OUT, 24)], [], []),
    "there and back": Program(from_cpu(lambda x, d: x.to(d).cpu()), [(*IN, 24), (*OUT, 24)], [".cpu()"], []),
    "into a tensor": Program(overwrite, [(*IN, 24)], [], []),
    "list": Program(on(lambda x: x.tolist()), [(*OUT, 24)], [".tolist()"], []),
    "numpy by force": Program(on(lambda x: x.numpy(force=True)), [(*OUT, 24)], [".numpy()"], []),
    "print": Program(on(lambda x: str(x)), [(*OUT, 24)], ["print"], []),
    "item": reading(lambda x: x.item(), ".item()"),
    "float": reading(float, "float()"),
    "int": reading(int, "int()"),
    "bool": reading(bool, "bool()"),
    "if": reading(lambda x: 1 if x else 0, "bool()"),
    "format": reading(lambda x: f"{x:.2f}", "format()"),
    "an index": reading(lambda x: [5, 6, 7, 8][x], "an index", lambda d: torch.tensor(3, device=d)),
    "nonzero": Program(on(lambda x: x.nonzero()), [], ["nonzero()"], ["nonzero"]),
    "mask": Program(masked(lambda x, m: x[m]), [], ["boolean mask"], ["index"]),
    "mask, one value": Program(masked(lambda x, m: x.__setitem__(m, 0.0)), [], [], ["index_put_"]),
    "element, one value": Program(on(lambda x: x.__setitem__(0, 3.0)), [(*IN, 4)], [], []),
    "slice, one value": Program(on(lambda x: x.__setitem__(slice(2), 3.0)), [], [], ["fill_"]),
    "rows, one value": Program(
        on(lambda x: x.__setitem__(torch.tensor([0, 2], device=x.device), 3.0)),
        [(*IN, 16), (*IN, 4)],
        [],
        ["index_put_"],
    ),
    "mask, several values": Program(
        masked(lambda x, m: x.__setitem__(m, torch.ones(3, device=x.device))),
        [],
        ["boolean mask"],
        ["ones", "index_put_"],
    ),
    "select": Program(masked(lambda x, m: x.masked_select(m)), [], ["masked_select()"], ["masked_select"]),
    "unique": Program(on(lambda x: x.unique()), [], ["unique()"], ["_unique2"]),
    "equal": Program(on(lambda x: torch.equal(x, x.clone())), [], ["equal()"], ["clone", "equal"]),
    "inverse": Program(
        on(lambda x: torch.linalg.inv(x.view(2, 3)[:, :2] + 3 * torch.eye(2, device=x.device))),
        [],
        ["linalg_check_errors()"],
        None,
    ),
    **(
        {
            "cholesky": Program(
                on(lambda x: old_cholesky(torch.eye(2, device=x.device))), [], ["cholesky()"], None
            )
        }
        if torch.__version__ < "2.14"
        else {}
    ),
    "repeated, of known size": Program(
        on(
            lambda x: x[:2].repeat_interleave(torch.ones(2, dtype=torch.long, device=x.device), output_size=2)
        ),
        [],
        [],
        None,
    ),
    "index of integers": Program(
        on(lambda x: x[torch.arange(2, device=x.device)]), [], [], ["arange", "index"]
    ),
    "index from the CPU": Program(hidden_index, [(*IN, 16)], [], ["index"]),
    "views": Program(on(lambda x: x.view(2, 3).t()[0].unsqueeze(0).detach()), [], [], []),
    "in place": Program(on(lambda x: x.add_(1).mul_(2)), [], [], ["add_", "mul_"]),
    "synchronize": Program(
        on(lambda x: torch.get_device_module(x.device).synchronize()), [], ["synchronize()"], []
    ),
    "accelerator": Program(on(lambda x: torch.accelerator.synchronize()), [], ["synchronize()"], []),
    "event": Program(events, [], ["event.synchronize()"], []),
    "module": Program(layer, [(*IN, 24), (*IN, 8)], [], []),
    "module with gradients": Program(
        moved_layer_with_gradients, [(*IN, 24), (*IN, 24), (*IN, 8), (*IN, 8)], [], []
    ),
    "backward": Program(backward, [], [], ["mm", "sum", "ones_like", "mm"]),
    "load": Program(load, [(*IN, 24), (*IN, 8)], [], []),
    "training step": Program(training_step, [(*IN, 80), (*IN, 40)], [], None),
    "inference mode": Program(inference, [(*IN, 48), (*OUT, 4)], [".item()"], ["mm", "sum"]),
}
