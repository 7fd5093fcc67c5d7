"""Lesson 11: the training step, checkpoints across devices, and the capstone."""

from devlab.lessons.lesson_11_training_step import stepping, measuring, keeping, fitting  # isort: skip  # in this order
from devlab.lessons.lesson_11_training_step.base import lesson

__all__ = ["fitting", "keeping", "lesson", "measuring", "stepping"]
