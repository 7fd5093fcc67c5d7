"""From any tensor to a NumPy array: off the graph, off the device, out of bfloat16."""

import numpy
import torch

from devlab.checks import cases, expect, verbs
from devlab.checks.late_copies import keep_busy
from devlab.lessons.lesson_06_numpy_sharing import lesson

to_numpy = lesson.exercise(
    "to_numpy(x)",
    ("N1", "N2", "N3", "N7"),
    "Three things can stand between a tensor and NumPy: the graph of its gradient, a device whose memory "
    "NumPy cannot see, and a dtype that NumPy does not have. Each has its own step.",
    "`x.detach()` leaves the graph, `.cpu()` leaves the device, `.numpy()` gives the array. NumPy has no "
    "bfloat16, and float32 holds each bfloat16 number exactly. Every other dtype stays as it is.",
    "`if x.dtype == torch.bfloat16: x = x.float()`, and then `return x.detach().cpu().numpy()`",
)


def _expect_array(trial, x: torch.Tensor, what: str = "", dtype: str = "float32") -> None:
    # By way of Python's own numbers, so that the reference shares no step with an answer.
    wanted = numpy.array(x.detach().cpu().tolist(), dtype=dtype).reshape(tuple(x.shape))
    got = verbs.at_once(trial, x, what="the array", values="numbers")
    expect.array(got, wanted, f"the array{what and ' of '}{what}")


@to_numpy.row("an array with x's shape and values")
def same_shape_and_values(trial):
    for x in cases.shapes(trial, (5, 3), (2, 3, 4, 1), (5, 3)):
        keep_busy(trial.device)
        _expect_array(trial, x)
    more = {"a strided view": x[::2, 1:], "a single number": x[1, 2]}
    for words, view in (cases.views(x) | more).items():
        _expect_array(trial, view, words)
    trial.other()  # nothing has to leave a device where there is none


@to_numpy.row("x's own dtype")
def same_dtype(trial):
    x = trial.randint(0, 100, (4, 3), seed=trial.seeds[0])
    names = ["float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    for name in names + ["float64", "complex64", "complex128"] * cases.holds(trial.device, torch.float64):
        one = (x % 2 if name == "bool" else x).to(getattr(torch, name))
        _expect_array(trial, one, dtype=name)
        if name == "float64":
            _expect_array(trial, one / 3, "a float64 tensor", name)
    _expect_array(trial, x + 2**53 + 1, "large integers", "int64")  # float64 holds only some of these


@to_numpy.row("bfloat16 comes as float32")
def from_bfloat16(trial):
    x = trial.randn(3, 5, seed=trial.seeds[2], dtype=torch.bfloat16)
    # Beyond float16 on either side: float32 has bfloat16's range.
    far = torch.tensor([3e38, -1e-30, 70000.0], dtype=torch.bfloat16).to(trial.device)
    for given in (x, x.t(), x[2, 4], x[:, :0], x.clone().requires_grad_(), far):
        _expect_array(trial, given, "a bfloat16 tensor")


@to_numpy.row("with a gradient or without, x as it was")
def with_a_graph(trial):
    x, weight = trial.randn(4, 3, seed=trial.seeds[0]), trial.randn(3, seed=trial.seeds[1])
    _expect_array(trial, x.clone().requires_grad_(), "a tensor that requires a gradient")
    _expect_array(trial, torch.nn.Parameter(x), "a parameter")
    y = x * weight.requires_grad_()
    _expect_array(trial, y, "a computed tensor")
    _expect_array(trial, y[1], "a view of a computed tensor")
    wanted = verbs.gradient(lambda one: x.cpu() * one, weight)
    verbs.flows(y, weight, wanted, wrong="the gradient after the call")
    _expect_array(trial, weight, "a tensor with a gradient")
    if weight.grad is None:
        expect.fail("the gradient of x is gone after the call", "x as it was", "x.grad is None")
    expect.values(weight.grad, wanted, "the gradient of x after the call", within=1e-3)
