# ruff: noqa: D103, RUF059 - learners write no docstrings
"""Tensors made inside forward, inside a loss, or by a helper whose frame is gone."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from explaining.broken import broken

DEVICE = torch.device("sim:0")


class Recurrent(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.rnn = nn.GRU(inputs, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), self.hidden)
        seq, _ = self.rnn(x, h0)
        return self.out(seq[:, -1])


@broken("h0", "made in forward", "h0 = torch.zeros(1, x.size(0), self.hidden, device=x.device)")
def hidden_zeros():
    Recurrent(3, 5).to(DEVICE)(torch.randn(2, 4, 3, device=DEVICE))


class Reparameterize(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(4, 2)
        self.log_var = nn.Linear(4, 2)

    def forward(self, x):
        mu, log_var = self.mu(x), self.log_var(x)
        return mu + torch.randn(mu.shape) * (0.5 * log_var).exp()


@broken("torch.randn(mu.shape)", "made in forward", "torch.randn(mu.shape, device=x.device)")
def noise_in_a_vae():
    Reparameterize().to(DEVICE)(torch.randn(3, 4, device=DEVICE))


def contrastive(z1, z2, temperature=0.1):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.T / temperature
    n = z1.shape[0]
    sim = sim - torch.eye(2 * n) * 1e9
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(sim.device)
    return F.cross_entropy(sim, targets)


@broken("torch.eye(2 * n)", "made in contrastive", "sim = sim - torch.eye(2 * n, device=z1.device) * 1e9")
def eye_in_a_contrastive_loss():
    z1, z2 = torch.randn(4, 8, device=DEVICE), torch.randn(4, 8, device=DEVICE)
    contrastive(z1, z2)


def dice(logits, target):
    hot = torch.eye(logits.shape[1])[target.cpu()]
    overlap = (logits.softmax(1) * hot).sum()
    return 1 - 2 * overlap / (logits.numel() + hot.sum())


@broken("hot", "made in dice", "hot = torch.eye(logits.shape[1], device=logits.device)[target.cpu()]")
def one_hot_by_eye():
    dice(torch.randn(4, 3, device=DEVICE), torch.tensor([0, 1, 2, 1], device=DEVICE))


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / c**0.5
        keep = torch.tril(torch.ones(t, t)).view(1, t, t)
        scores = scores.masked_fill(keep == 0, float("-inf"))
        return scores.softmax(-1) @ v


@broken("keep", "made in forward", "keep = torch.tril(torch.ones(t, t, device=x.device)).view(1, t, t)")
def causal_mask():
    CausalAttention(8, 2).to(DEVICE)(torch.randn(2, 5, 8, device=DEVICE))


def lengths_to_mask(lengths, longest):
    steps = torch.arange(longest)
    return steps[None, :] < lengths.cpu()[:, None]


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 3)

    def forward(self, tokens, lengths):
        mask = lengths_to_mask(lengths, tokens.shape[1])
        hidden = self.proj(tokens)
        return (hidden * mask.unsqueeze(-1)).sum(1)


@broken("mask", "made in lengths_to_mask", "mask = mask.to(tokens.device)")
def mask_from_a_helper_whose_frame_is_gone():
    Pooled().to(DEVICE)(torch.randn(2, 4, 3, device=DEVICE), torch.tensor([2, 4], device=DEVICE))


def pad_to(x, length):
    missing = length - x.shape[0]
    filler = torch.zeros((missing, *x.shape[1:]), dtype=x.dtype)
    return torch.cat((x, filler), dim=0)


@broken(
    "filler",
    "made in pad_to",
    "filler = torch.zeros((missing, *x.shape[1:]), dtype=x.dtype, device=x.device)",
)
def padding_a_sequence():
    items = [torch.randn(n, 2, device=DEVICE) for n in (2, 4)]
    torch.stack([pad_to(item, 4) for item in items])


class FocalLoss(nn.Module):
    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        alpha = torch.from_numpy(np.array([0.2, 0.3, 0.5], dtype=np.float32))
        logp = logits.log_softmax(-1)
        return -(alpha[None, :] * (1 - logp.exp()) ** self.gamma * logp).mean()


@broken(
    "alpha",
    "made from NumPy in forward",
    "alpha = torch.from_numpy(np.array([0.2, 0.3, 0.5], dtype=np.float32)).to(logits.device)",
)
def weights_from_numpy_inside_a_loss():
    FocalLoss(2.0)(torch.randn(4, 3, device=DEVICE), torch.tensor([0, 1, 2, 0], device=DEVICE))


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = alpha * real + (1 - alpha) * fake
    return critic(mixed).sum()


@broken("alpha", "made in gradient_penalty", "alpha = torch.rand(real.size(0), 1, device=real.device)")
def gradient_penalty_of_a_gan():
    critic = nn.Linear(3, 1).to(DEVICE)
    gradient_penalty(critic, torch.randn(4, 3, device=DEVICE), torch.randn(4, 3, device=DEVICE))


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        inside = torch.ones(x.shape)
        return grad * inside


@broken("inside", "made in backward", "inside = torch.ones(x.shape, device=grad.device)")
def made_in_a_custom_backward():
    x = torch.randn(3, device=DEVICE, requires_grad=True)
    Straight.apply(x).sum().backward()


class WithNorm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.features = features
        self.lift = nn.Linear(features, features)

    def forward(self, x):
        x = self.lift(x)
        x = nn.LayerNorm(self.features)(x)
        return x.relu()


@broken("nn.LayerNorm(self.features)", "a new module", "nn.LayerNorm(self.features).to(x.device)")
def module_made_in_forward():
    WithNorm(4).to(DEVICE)(torch.randn(2, 4, device=DEVICE))
