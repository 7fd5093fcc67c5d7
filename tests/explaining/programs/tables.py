# ruff: noqa: D103 - learners write no docstrings
"""Tables that a module uses and never registered: positions, anchors, windows, schedules, metric state."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from explaining.broken import broken

DEVICE = torch.device("sim:0")


class SinusoidalEncoding(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(longest, width)
        pe[:, 0::2] = torch.sin(position * rate)
        pe[:, 1::2] = torch.cos(position * rate)
        self.pe = pe.unsqueeze(0)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


@broken(
    "self.pe", "plain attribute 'pe' of SinusoidalEncoding", 'self.register_buffer("pe", pe.unsqueeze(0))'
)
def positions_never_registered():
    model = nn.Sequential(nn.Linear(6, 8), SinusoidalEncoding(8), nn.Linear(8, 2)).to(DEVICE)
    model(torch.randn(3, 5, 6, device=DEVICE))


class AnchorHead(nn.Module):
    def __init__(self, strides=(8, 16)):
        super().__init__()
        self.strides = strides
        self.heads = nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in strides)
        self.anchors = [torch.rand(4, 1) * stride for stride in strides]

    def decode(self, level, raw):
        return raw.sigmoid() * self.anchors[level]

    def forward(self, features):
        return [self.decode(i, feature) for i, feature in enumerate(features)]


@broken(
    "self.anchors[level]",
    "in the list plain attribute 'anchors' of AnchorHead",
    "return raw.sigmoid() * self.anchors[level].to(raw.device)",
)
def anchors_in_a_list():
    head = AnchorHead().to(DEVICE)
    head([torch.randn(2, 4, 10, device=DEVICE), torch.randn(2, 4, 5, device=DEVICE)])


class Spectrum(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.windows = {"hann": torch.hann_window(size), "flat": torch.ones(size)}
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, wave, kind="hann"):
        frames = wave.unfold(-1, self.size, self.size)
        window = self.windows[kind]
        return (frames * window * self.scale).square().sum(-1)


@broken(
    "window",
    "in the dict plain attribute 'windows' of Spectrum",
    "return (frames * window.to(wave.device) * self.scale).square().sum(-1)",
)
def windows_in_a_dict():
    Spectrum(4).to(DEVICE)(torch.randn(2, 16, device=DEVICE))


class Diffusion:
    """The schedule lives in an ordinary object, as in many published samplers."""

    def __init__(self, steps):
        betas = torch.linspace(1e-4, 0.02, steps)
        self.alphas_bar = torch.cumprod(1 - betas, dim=0)

    def noisy(self, x, t, noise):
        level = self.alphas_bar.gather(0, t).view(-1, 1)
        return level.sqrt() * x + (1 - level).sqrt() * noise


@broken(
    "self.alphas_bar",
    "attribute 'alphas_bar' of Diffusion",
    "betas = torch.linspace(1e-4, 0.02, steps, device=DEVICE)",
)
def schedule_of_a_sampler():
    diffusion = Diffusion(10)
    x = torch.randn(4, 3, device=DEVICE)
    t = torch.randint(0, 10, (4,), device=DEVICE)
    diffusion.noisy(x, t, torch.randn_like(x))


class RunningAccuracy:
    def __init__(self, classes):
        self.hits = torch.zeros(classes)
        self.seen = torch.zeros(classes)

    def update(self, logits, labels):
        right = (logits.argmax(1) == labels).float()
        self.hits += torch.zeros(3, device=labels.device).scatter_add(0, labels, right)


@broken(
    "self.hits",
    "attribute 'hits' of RunningAccuracy",
    "self.hits = torch.zeros(classes, device=DEVICE)",
)
def metric_state():
    metric = RunningAccuracy(3)
    logits = torch.randn(5, 3, device=DEVICE)
    metric.update(logits, torch.tensor([0, 1, 2, 1, 0], device=DEVICE))


class RelativeBias(nn.Module):
    def __init__(self, window):
        super().__init__()
        grid = torch.arange(window)
        self.index = (grid[:, None] - grid[None, :]) + window - 1
        self.bias = nn.Parameter(torch.randn(2 * window - 1))
        self.register_buffer("decay", torch.ones(window))

    def forward(self, scores):
        return scores + self.bias.take(self.index) * self.decay


@broken(
    "self.index", "plain attribute 'index' of RelativeBias", 'self.register_buffer("index", (grid[:, None]'
)
def relative_position_index():
    block = nn.ModuleDict({"bias": RelativeBias(4), "out": nn.Linear(4, 4)}).to(DEVICE)
    block["bias"](torch.randn(2, 4, 4, device=DEVICE))


@dataclass
class Normalizer:
    mean: torch.Tensor
    std: torch.Tensor

    def __call__(self, x):
        return (x - self.mean) / self.std


@broken("self.mean", "attribute 'mean' of Normalizer", "mean=torch.tensor([0.5, 0.4, 0.3], device=DEVICE)")
def statistics_in_a_dataclass():
    norm = Normalizer(mean=torch.tensor([0.5, 0.4, 0.3]), std=torch.tensor([0.2, 0.2, 0.2]))
    norm(torch.rand(8, 3, device=DEVICE))


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cdist(self.proj(x), self.codebook)


@broken(
    "self.codebook",
    "plain attribute 'codebook' of Quantizer",
    'model.register_buffer("codebook", torch.randn(16, 4, device=DEVICE))',
)
def attribute_set_from_outside():
    model = Quantizer().to(DEVICE)
    model.codebook = torch.randn(16, 4)
    model(torch.randn(3, 4, device=DEVICE))


class Rotary(nn.Module):
    """Angles are cached for the longest sequence seen; a dry run on the CPU fills the cache."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("rate", torch.ones(width // 2))
        self.cache = {}

    def angles(self, length):
        if length not in self.cache:
            steps = torch.arange(length, device=self.rate.device)
            self.cache[length] = torch.outer(steps, self.rate)
        return self.cache[length]

    def forward(self, x):
        angles = self.angles(x.shape[1])
        return x * angles.cos()


@broken("angles", "in the dict plain attribute 'cache' of Rotary", "return x * angles.to(x.device).cos()")
def cache_filled_by_a_dry_run():
    rotary = Rotary(8)
    rotary(torch.randn(1, 5, 4))
    rotary.to(DEVICE)
    rotary(torch.randn(1, 5, 4, device=DEVICE))
