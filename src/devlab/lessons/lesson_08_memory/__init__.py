"""Lesson 08: what device memory holds, what the cache keeps, and how to give it back."""

from devlab.lessons.lesson_08_memory import (  # isort: skip  # registers the exercises, in this order
    counting,
    freeing,
    releasing,
    growing,
    sizing,
    trying,
)
from devlab.lessons.lesson_08_memory.base import lesson

__all__ = ["counting", "freeing", "growing", "lesson", "releasing", "sizing", "trying"]
