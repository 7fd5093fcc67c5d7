"""Lesson 02: CUDA: which GPU, is it here, and what happens where two devices meet."""

from devlab.lessons.lesson_02_cuda import asking, current, making, reasons  # registers the exercises, in order
from devlab.lessons.lesson_02_cuda.base import lesson

__all__ = ["asking", "current", "lesson", "making", "reasons"]
