"""Lesson 05: models and buffers, and helpers made from their input."""

from devlab.lessons.lesson_05_buffers import buffers, helpers, walks  # registers the exercises, in this order
from devlab.lessons.lesson_05_buffers.base import lesson

__all__ = ["buffers", "helpers", "lesson", "walks"]
