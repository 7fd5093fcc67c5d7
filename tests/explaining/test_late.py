"""Errors that come late: explain names the line that launched what failed, and says how to go on."""

import pytest
import torch
from torch.nn import functional

import devlab.sim
from devlab.explaining import explained
from devlab.explaining.report import worth_explaining


def loss_of(logits, labels):
    """Return the loss; where a label is out of range, the device finds it later."""
    return functional.cross_entropy(logits, labels)


def training(labels):
    """Run a step, and wait for it at the end."""
    logits = torch.zeros(2, 4, device="sim")
    loss = loss_of(logits, torch.tensor(labels).to("sim"))
    return loss.item()


def caught(run, *args) -> Exception:
    """Return the error that a function raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        run(*args)
    return raised.value


def test_the_culprit_is_the_line_that_launched():
    """The line that failed is where the host waited; the device's reason and both ways out are named."""
    error = caught(training, [1, 7])
    report = explained(error)
    assert worth_explaining(error)
    assert report.known
    assert report.headline == "the device found a value out of range, and the host learns of it only here"
    assert report.operation == "loss.item()"
    assert report.culprit == "return functional.cross_entropy(logits, labels)"
    line = loss_of.__code__.co_firstlineno + 2
    assert report.origin == (
        f"test_late.py, line {line} launched `nll_loss_forward` and went on; "
        "the device: Target 7 is out of bounds."
    )
    assert "CUDA_LAUNCH_BLOCKING=1" in report.otherwise
    assert "devlab.sim.reset()" in report.note
    assert "number of rows, embeddings or classes" in report.note


def test_where_each_launch_waits_the_line_is_right(monkeypatch):
    """Then the line that failed and the culprit are one, and nothing is said of other ways to find it."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    report = explained(caught(training, [1, 7]))
    assert report.headline == "the device found a value out of range"
    assert report.operation == "functional.cross_entropy(logits, labels)"
    assert report.origin == "`nll_loss_forward`: Target 7 is out of bounds."
    assert report.otherwise == ""


def test_on_mps_there_is_nothing_to_reset():
    """The device works on there."""
    with devlab.sim.rules("mps"):
        report = explained(caught(training, [1, 7]))
    assert report.culprit == "return functional.cross_entropy(logits, labels)"
    assert "reset" not in report.note


def test_probabilities_are_no_indices():
    """What to look at follows from what the device found."""

    def draw():
        torch.multinomial(torch.tensor([-1.0], device="sim"), 1).tolist()

    report = explained(caught(draw))
    assert "indices" not in report.note
    assert "`.max()`" in report.note


def test_a_label_is_called_one_in_any_spelling():
    """The CPU's kernels write `Target` and `target`, and say "target" of a probability, too."""
    wrong, scores = torch.tensor([7, 7], device="sim"), torch.rand(2, 2, device="sim")
    report = explained(caught(lambda: functional.multi_margin_loss(scores, wrong).item()))
    assert "number of rows, embeddings or classes" in report.note
    devlab.sim.reset()
    report = explained(caught(lambda: functional.binary_cross_entropy(scores, scores + 1).item()))
    assert "classes" not in report.note


def test_on_a_real_gpu_the_line_is_not_known():
    """PyTorch's own message is read, and the report says that the line has no part in it."""
    said = "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported"
    report = explained(torch.AcceleratorError(said))
    assert not report.known
    assert report.headline == "the device failed earlier, and the host learns of it here"
    assert "CUDA_LAUNCH_BLOCKING=1" in report.note
    assert "restart the kernel" in report.note


def test_on_the_cpu_the_error_is_early():
    """There the line is right, and devices have no part in it."""
    report = explained(caught(functional.cross_entropy, torch.zeros(2, 4), torch.tensor([1, 7])))
    assert "an index or a label is outside" in report.headline
