"""Lesson 08: what device memory holds, what the cache keeps, and how to give it back."""

from devlab.lessons.lesson_08_memory import counting, freeing, growing, sizing  # registers, in this order
from devlab.lessons.lesson_08_memory.base import lesson

__all__ = ["counting", "freeing", "growing", "lesson", "sizing"]
