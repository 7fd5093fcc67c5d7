"""The lesson itself, to which each module here adds its exercises."""

from devlab.checks.exercise import Lesson

lesson = Lesson("01_cpu", "The CPU")
