"""Lesson 09: several devices: sums and stages across them, parts of a batch, and several processes."""

from devlab.lessons.lesson_09_several_devices import across, stages, parts, training  # isort: skip  # in this order
from devlab.lessons.lesson_09_several_devices.base import lesson

__all__ = ["across", "lesson", "parts", "stages", "training"]
