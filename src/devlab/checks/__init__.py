"""Checks: what an exercise is, how an answer is judged, and how the verdict reads."""
