"""Lesson 04: transfers: moving, loading, and reading back."""

import torch

from devlab.checks.exercise import Lesson

lesson = Lesson(
    "04_transfers",
    "Transfers",
    (
        "move",
        "cast_and_move",
        "returns_itself",
        "make_loader",
        "batches",
        "read_back",
        "fetch_losses",
        "no_ping_pong",
    ),
)

CPU = torch.device("cpu")


def numbers_of(trial, dtype: torch.dtype, on: torch.device, seed: int) -> torch.Tensor:
    """Return numbers of any dtype, between 0 and 100: every dtype holds such numbers."""
    plain = (20 * trial.randn(5, 3, seed=seed, on=CPU)).abs().clamp(max=100)
    return (plain > 15 if dtype is torch.bool else plain).to(dtype).to(on)


MOST = 50  # so many minibatches are taken at most, since a learner's loader may never end


def samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels on the CPU; every label is another number."""
    inputs = trial.randn(count, 3, seed=seed, on=CPU)
    return inputs, torch.arange(100, 100 + count)
