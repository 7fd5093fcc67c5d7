"""Lesson 12: fewer bytes and fewer seconds for the same training, and when results are the same."""

from devlab.checks.exercise import Lesson

lesson = Lesson("12_less_memory_less_time", "Less memory, less time", ("same_results",))
