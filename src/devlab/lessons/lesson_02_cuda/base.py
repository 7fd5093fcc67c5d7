"""The lesson itself, to which each module here adds its exercises."""

from devlab.checks.exercise import Lesson

lesson = Lesson("02_cuda", "CUDA")
