"""The drawings of the lessons: a module for each subject, and `sheet` to draw on."""

from factory.drawings import formats, machines, memory, modules, mountains, peers, ranks
from factory.drawings.sheet import DRAWINGS, drawn

__all__ = ["DRAWINGS", "drawn", "formats", "machines", "memory", "modules", "mountains", "peers", "ranks"]
