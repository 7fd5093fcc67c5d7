"""The drawings of the lessons: a module for each subject, and `sheet` to draw on."""

from factory.drawings import figures, machines, memory, modules, ranks
from factory.drawings.sheet import DRAWINGS, drawn

__all__ = ["DRAWINGS", "drawn", "figures", "machines", "memory", "modules", "ranks"]
