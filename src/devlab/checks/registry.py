"""Every lesson and exercise of the course, discovered, never listed by hand."""

import difflib
import functools
import importlib
import pkgutil

from devlab.checks.exercise import Exercise, Lesson


@functools.cache
def lessons() -> list[Lesson]:
    """Return the lessons in course order: each package of `devlab.lessons`, with all its modules imported.

    >>> [lesson.id for lesson in lessons()][0]
    '00_start_here'
    """
    package = importlib.import_module("devlab.lessons")
    found = []
    for _, name, holds_exercises in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(name)
        found += [module.lesson] if holds_exercises else []
    return sorted(found, key=lambda lesson: lesson.id)


def exercises() -> list[Exercise]:
    """Return every exercise in course order."""
    return [exercise for lesson in lessons() for exercise in lesson.exercises]


def find(name: str) -> Exercise | None:
    """Return the exercise of that name, or None.

    >>> find("device_of").lesson
    '00_start_here'
    """
    return next((exercise for exercise in exercises() if exercise.name == name), None)


def nearest(name: str) -> list[str]:
    """Return up to three exercise names that resemble the given one, the best first.

    >>> nearest("device_off")[0]
    'device_of'
    """
    names = {exercise.name.lower(): exercise.name for exercise in exercises()}
    return [names[found] for found in difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)]
