"""Lesson 02: CUDA: which GPU, is it here, and what happens where two devices meet."""

from devlab.checks.exercise import Lesson

lesson = Lesson(
    "02_cuda", "CUDA", ("pick_cuda_or_cpu", "list_gpus", "resolve", "make_on", "add_anywhere", "why_no_cuda")
)


ONE = ("NVIDIA RTX A2000",)
THREE = ("NVIDIA H100 PCIe", "NVIDIA L4", "NVIDIA L4")
