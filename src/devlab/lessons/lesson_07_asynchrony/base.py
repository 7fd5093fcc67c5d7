"""The lesson itself, which its exercises register with."""

from devlab.checks.exercise import Lesson

lesson = Lesson("07_asynchrony", "Asynchrony")
