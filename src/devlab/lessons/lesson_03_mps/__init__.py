"""Lesson 03: MPS and other accelerators: one program for all of them, and what some of them lack."""

from devlab.lessons.lesson_03_mps import choosing, lacking, numbers  # registers the exercises, in order
from devlab.lessons.lesson_03_mps.base import lesson

__all__ = ["choosing", "lacking", "lesson", "numbers"]
