"""Lesson 02: CUDA: which GPU, is it here, and what happens where two devices meet."""

from devlab.lessons.lesson_02_cuda import (  # registers the exercises, in order
    asking,
    current,
    making,
    reasons,
)
from devlab.lessons.lesson_02_cuda.base import lesson

__all__ = ["asking", "current", "lesson", "making", "reasons"]
