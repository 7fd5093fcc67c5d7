"""Lesson 07: asynchrony: the host runs ahead, and when an accelerator is worth its price."""

from devlab.lessons.lesson_07_asynchrony import timing, marking, launching, fetching, comparing  # isort: skip  # in this order
from devlab.lessons.lesson_07_asynchrony.base import lesson

__all__ = ["comparing", "fetching", "launching", "lesson", "marking", "timing"]
