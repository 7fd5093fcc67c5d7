"""Lesson 01: the CPU, where data arrives, is prepared, and leaves from."""

from devlab.lessons.lesson_01_cpu import (  # registers the exercises, in this order
    data,
    deviation,
    memory,
    places,
)
from devlab.lessons.lesson_01_cpu.base import lesson

__all__ = ["data", "deviation", "lesson", "memory", "places"]
