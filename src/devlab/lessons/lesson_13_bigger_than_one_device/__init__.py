"""Lesson 13: models that one device cannot hold: placed in parts, filled late, shared among processes."""

from devlab.checks.exercise import Lesson

lesson = Lesson(
    "13_bigger_than_one_device",
    "Bigger than one device",
    ("utilization", "Chain", "materialize", "mean_of_all", "sharded_step"),
)
