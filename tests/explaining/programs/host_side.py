# ruff: noqa: D103 - learners write no docstrings
"""Things that belong on the CPU: NumPy, lengths, indices of CPU data, a loader's generator."""

import numpy as np
import torch
from explaining.broken import broken
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Sampler, TensorDataset

DEVICE = torch.device("sim:0")


@broken("predictions", "computed", "predictions.detach().cpu().numpy()")
def predictions_to_numpy():
    model = nn.Linear(4, 2).to(DEVICE)
    predictions = model(torch.randn(3, 4, device=DEVICE)).argmax(1)
    return predictions.numpy()


@broken("model.weight", "parameter 'weight' of Linear", "model.weight.detach().cpu().numpy()")
def weights_with_a_graph():
    model = nn.Linear(4, 2)
    return np.abs(model.weight.numpy()).mean()


@broken("losses[0]", "an element of a list", "np.array(torch.stack(losses).detach().cpu().numpy())")
def list_of_losses_to_numpy():
    w = torch.ones(3, device=DEVICE, requires_grad=True)
    losses = []
    for step in range(3):
        losses.append((w * step).sum())
    return np.array(losses)


@broken("h", "made in", "np.asarray(h.mean(0).detach().cpu().numpy())")
def expression_to_numpy():
    h = torch.randn(3, 4, device=DEVICE)
    return np.asarray(h.mean(0))


@broken("half", "made in bfloat16_to_numpy", "half.cpu().float().numpy()")
def bfloat16_to_numpy():
    half = torch.ones(3, dtype=torch.bfloat16)
    return half.numpy()


@broken("image[::-1]", "negative strides", "torch.from_numpy(image[::-1].copy())")
def flipped_image():
    image = np.zeros((2, 3), dtype=np.float32)
    return torch.from_numpy(image[::-1])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)


@broken(
    "lengths",
    "put on sim:0",
    "pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)",
)
def lengths_on_the_accelerator():
    batch = {"x": torch.randn(2, 5, 3), "lengths": torch.tensor([5, 3])}
    batch = {name: value.to(DEVICE) for name, value in batch.items()}
    Tagger().to(DEVICE)(batch["x"], batch["lengths"])


@broken("pool", "made in read_pool", "torch.arange(20.0, device=DEVICE)")
def accelerator_index_into_a_cpu_pool():
    pool = read_pool()
    order = torch.randperm(10, device=DEVICE)[:4]
    return pool[order]


def read_pool():
    return torch.arange(20.0).view(10, 2).sqrt()


class Replay:
    def __init__(self, size):
        self.states = torch.zeros(size, 3)

    def sample(self, count):
        where = torch.randint(0, 8, (count,), device=DEVICE)
        return self.states[where]


@broken("where", "made in sample", "self.states[where.cpu()]")
def replay_buffer_index():
    Replay(8).sample(2)


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 4)
        self.centers = torch.randn(4, 2)

    def forward(self, x):
        nearest = self.encode(x).argmax(-1)
        return self.centers[nearest]


@broken(
    "self.centers", "plain attribute 'centers' of Codes", 'self.register_buffer("centers", torch.randn(4, 2))'
)
def accelerator_index_into_a_forgotten_table():
    Codes().to(DEVICE)(torch.randn(5, 3, device=DEVICE))


@broken(
    "generator",
    "made in noise_with_a_cpu_generator",
    "generator = torch.Generator(device=DEVICE).manual_seed(0)",
)
def noise_with_a_cpu_generator():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, device=DEVICE, generator=generator)


class Refusing(Sampler):
    """Refuses a generator in the words that PyTorch has on a machine with a GPU."""

    def __init__(self, wants, has):
        self.words = f"Expected a '{wants}' device type for generator but found '{has}'"

    def __iter__(self):
        raise RuntimeError(self.words)


@broken("torch.Generator(device=DEVICE)", "made in", "torch.Generator()")
def loader_with_a_device_generator():
    data = TensorDataset(torch.arange(6.0))
    order = Refusing("cpu", "sim")
    for _ in DataLoader(data, batch_size=2, sampler=order, generator=torch.Generator(device=DEVICE)):
        pass


@broken("generator", "the loader's own generator", "generator=torch.Generator(device=DEVICE)")
def loader_under_a_default_device():
    for _ in DataLoader(list(range(6)), batch_size=2, sampler=Refusing("sim", "cpu")):
        pass
