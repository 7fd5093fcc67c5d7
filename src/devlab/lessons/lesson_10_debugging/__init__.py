"""Lesson 10: debugging, three tools that look and six broken programs to mend."""

from devlab.lessons.lesson_10_debugging import describing, strays, data, masking, made  # isort: skip  # in task order
from devlab.lessons.lesson_10_debugging.base import lesson

__all__ = ["data", "describing", "lesson", "made", "masking", "strays"]
