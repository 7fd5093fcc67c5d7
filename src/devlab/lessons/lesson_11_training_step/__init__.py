"""Lesson 11: the training step, checkpoints across devices, and the capstone."""

# They register their exercises in this order.
from devlab.lessons.lesson_11_training_step import stepping, measuring, keeping, loading, fitting  # isort: skip
from devlab.lessons.lesson_11_training_step.base import lesson

__all__ = ["fitting", "keeping", "lesson", "loading", "measuring", "stepping"]
