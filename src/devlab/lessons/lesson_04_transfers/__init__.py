"""Lesson 04: transfers: moving, loading, and reading back."""

from devlab.lessons.lesson_04_transfers import containers, dtypes, loading, reading  # in this order
from devlab.lessons.lesson_04_transfers.base import lesson

__all__ = ["containers", "dtypes", "lesson", "loading", "reading"]
