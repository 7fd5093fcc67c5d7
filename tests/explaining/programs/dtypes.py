# ruff: noqa: D103 - learners write no docstrings
"""Dtypes that met, or that the device has not; messages of devices not here are raised as they read there."""

import numpy as np
import torch
from explaining.broken import broken
from torch import nn
from torch.nn import functional as F

DEVICE = torch.device("sim:0")


@broken("x", "made from NumPy", "x = torch.from_numpy(rows).to(torch.float32)")
def double_from_numpy():
    rows = np.random.rand(4, 3)
    model = nn.Linear(3, 2)
    x = torch.from_numpy(rows)
    model(x)


@broken("labels", "made in", "labels = torch.tensor([0.0, 1.0, 1.0], dtype=torch.int64)")
def float_labels():
    logits = torch.randn(3, 2)
    labels = torch.tensor([0.0, 1.0, 1.0])
    F.nll_loss(logits.log_softmax(1), labels)


@broken("x", "made in", "x = x.to(torch.float32)")
def half_meets_single():
    def forward(model, x):
        return model(x)

    net = nn.Linear(4, 2)
    half = torch.randn(2, 4).half()
    forward(net, half)


def to_apple(x):
    if x.dtype == torch.float64:
        raise TypeError(
            "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
            "Please use float32 instead."
        )
    return x


@broken("signal", "made from NumPy in", "to_apple(signal.to(torch.float32))")
def double_on_apple():
    signal = torch.from_numpy(np.linspace(0.0, 1.0, 5))
    to_apple(signal)


def cholesky_on_apple(x):
    raise NotImplementedError(
        "The operator 'aten::linalg_cholesky' is not currently implemented for the MPS device."
    )


@broken("gram", "made in operator_missing", "cholesky_on_apple(gram.cpu()).to(gram.device)")
def operator_missing():
    gram = torch.eye(3, device=DEVICE)
    cholesky_on_apple(gram)
