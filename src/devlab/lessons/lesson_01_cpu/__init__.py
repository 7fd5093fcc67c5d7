"""Lesson 01: the CPU, where data arrives, is prepared, and leaves from."""

from devlab.lessons.lesson_01_cpu import data, memory, places  # registers the exercises, in this order
from devlab.lessons.lesson_01_cpu.base import lesson

__all__ = ["data", "lesson", "memory", "places"]
