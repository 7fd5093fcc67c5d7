"""Lesson 05: models and buffers, and helpers made from their input."""

from devlab.lessons.lesson_05_buffers import (  # registers the exercises, in this order
    causal,
    centring,
    encoding,
    helpers,
    noise,
    ones,
    walks,
    where,
)
from devlab.lessons.lesson_05_buffers.base import lesson

__all__ = ["causal", "centring", "encoding", "helpers", "lesson", "noise", "ones", "walks", "where"]
