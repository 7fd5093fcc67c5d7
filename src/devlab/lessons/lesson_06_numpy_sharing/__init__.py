"""Lesson 06: one memory under two names, and what has to be copied."""

# Importing registers the exercises, in this order.
from devlab.lessons.lesson_06_numpy_sharing import exports, identity, imports, in_place, losses
from devlab.lessons.lesson_06_numpy_sharing.base import lesson

__all__ = ["exports", "identity", "imports", "in_place", "lesson", "losses"]
