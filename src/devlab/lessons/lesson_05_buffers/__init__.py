"""Lesson 05: models and buffers, and helpers made from their input."""

from devlab.lessons.lesson_05_buffers import (  # registers the exercises, in this order
    buffers,
    encoding,
    helpers,
    walks,
)
from devlab.lessons.lesson_05_buffers.base import lesson

__all__ = ["buffers", "encoding", "helpers", "lesson", "walks"]
