"""Lesson 01: the CPU, where data arrives, is prepared, and leaves from."""

from devlab.checks.exercise import Lesson

lesson = Lesson("01_cpu", "The CPU", ("load_table", "standardize", "tensor_bytes", "storage_bytes", "places"))
