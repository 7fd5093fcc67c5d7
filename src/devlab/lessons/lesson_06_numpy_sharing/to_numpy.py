"""From any tensor to a NumPy array: off the graph, off the device, out of bfloat16."""

import numpy
import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_06_numpy_sharing import lesson, read_at_once

to_numpy = lesson.exercise(
    "to_numpy",
    signature="to_numpy(x)",
    facts=("N1", "N2", "N3", "N7"),
    hints=(
        "Three things can stand between a tensor and NumPy: the graph of its gradient, a device whose memory "
        "NumPy cannot see, and a dtype that NumPy does not have. Each has its own step.",
        "`x.detach()` leaves the graph, `.cpu()` brings it home, `.numpy()` gives the array. NumPy has no "
        "bfloat16, and float32 holds each bfloat16 number exactly. Every other dtype stays as it is.",
        "`if x.dtype == torch.bfloat16: x = x.float()`, and then `return x.detach().cpu().numpy()`",
    ),
)


def _expect_array(trial, x: torch.Tensor, what: str, dtype: str = "float32") -> None:
    # By way of Python's own numbers, which no road from tensor to array goes.
    wanted = numpy.array(x.detach().cpu().tolist(), dtype=dtype).reshape(tuple(x.shape))
    expect.array(read_at_once(trial, x), wanted, what)


@to_numpy.row("an array with x's shape and values")
def same_shape_and_values(trial):
    for seed in trial.seeds:
        x = trial.randn(5, 3, seed=seed)
        _expect_array(trial, x, "the array")
    _expect_array(trial, x.t()[1:], "the array of a transposed view")
    _expect_array(trial, x[::2, 1:], "the array of a strided view")
    _expect_array(trial, trial.randn(2, 3, 4, 1), "the array")
    _expect_array(trial, x[:1].expand(4, 3), "the array of an expanded view")
    _expect_array(trial, x[1, 2], "the array of a single number")
    _expect_array(trial, x[:0], "the array of an empty tensor")


@to_numpy.row("x's own dtype")
def same_dtype(trial):
    x = trial.randint(0, 100, (4, 3), seed=trial.seeds[0])
    names = ["float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    if has_float64(trial.device):
        names += ["float64", "complex64"]
    for name in names:
        _expect_array(trial, (x % 2 if name == "bool" else x).to(getattr(torch, name)), "the array", name)
    if has_float64(trial.device):
        fine = trial.randn(7, seed=trial.seeds[1], dtype=torch.float64) / 3
        _expect_array(trial, fine, "the array of a float64 tensor", "float64")


@to_numpy.row("bfloat16 comes as float32")
def from_bfloat16(trial):
    x = trial.randn(3, 5, seed=trial.seeds[2], dtype=torch.bfloat16)
    for given in (x, x.t(), x[2, 4], x[:, :0], x.detach().clone().requires_grad_()):
        _expect_array(trial, given, "the array of a bfloat16 tensor")
    # Beyond float16 on either side: float32 has bfloat16's range.
    far = torch.tensor([3e38, -1e-30, 70000.0], dtype=torch.bfloat16).to(trial.device)
    _expect_array(trial, far, "the array of a bfloat16 tensor")


@to_numpy.row("with a gradient or without, x as it was")
def with_a_graph(trial):
    x, weight = trial.randn(4, 3, seed=trial.seeds[0]), trial.randn(3, seed=trial.seeds[1])
    _expect_array(trial, x.clone().requires_grad_(), "the array of a tensor that asks for a gradient")
    _expect_array(trial, torch.nn.Parameter(x), "the array of a parameter")
    wanted = x.sum(0)
    weight.requires_grad_()
    y = x * weight
    _expect_array(trial, y, "the array of a computed tensor")
    _expect_array(trial, y[1], "the array of a view of a computed tensor")
    y.sum().backward()
    expect.values(weight.grad, wanted, "the gradient after the call")
    _expect_array(trial, weight, "the array of a tensor with a gradient")
    if weight.grad is None:
        expect.fail("the gradient of x is gone after the call", "x as it was", "x.grad is None")
    expect.values(weight.grad, wanted, "the gradient of x after the call")
