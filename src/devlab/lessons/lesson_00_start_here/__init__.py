"""Lesson 00: where a tensor lives, and how to ask."""

from devlab.checks.exercise import Lesson

lesson = Lesson("00_start_here", "Start here", ("device_of", "same_place"))
