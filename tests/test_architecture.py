"""Imports run one way: this reads them, without running anything, and keeps them so."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devlab.checks.exercise import exercises

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
LONGEST = 600
# What is nothing but widgets, and is itself imported by the function that shows them; what Jupyter
# and pytest load by themselves.
ON_DEMAND = {"devlab.explore.live", "devlab.contents", "devlab.pytest_plugin"}
LIGHT = {"devlab", "torch", "numpy"} | set(sys.stdlib_module_names)


@dataclass(frozen=True)
class Import:
    """One name that a module imports, and whether importing the module imports it too."""

    target: str
    line: int
    top_level: bool


def module_name(path: Path) -> str:
    """Name the module in a file, as Python does."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}


def nodes(tree: ast.AST, top_level: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Walk a module, telling for each node whether it runs when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, top_level
        yield from nodes(child, top_level and not is_function)


def imports(module: str) -> list[Import]:
    """List what a module imports, `from package import module` counting as the module."""
    package = module if PATHS[module].name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node, top_level in nodes(TREES[module]):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, top_level) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append(Import(full if full in PATHS else base, node.lineno, top_level))
    return found


def part(module: str) -> str:
    """Name the part of the package that a module belongs to: `checks`, `sim`, `lessons` …"""
    return module.split(".")[1] if "." in module else "__init__"


def inside(module: str, package: str) -> bool:
    """Tell whether a module is a package or in it."""
    return module == package or module.startswith(package + ".")


def lesson_of(module: str) -> str | None:
    """Name the lesson that a module belongs to, if it belongs to one."""
    return module.split(".")[2] if module.startswith("devlab.lessons.") else None


def breaches(rule) -> list[str]:
    """List the imports of the package that break a rule, as `file:line: module imports target`."""
    return [
        f"{PATHS[module].relative_to(ROOT).as_posix()}:{found.line}: {module} imports {found.target}"
        for module in PATHS
        for found in imports(module)
        if rule(module, found)
    ]


def test_the_simulated_device_and_devices_know_nothing_of_the_course():
    """`sim` and `devices` could be lifted out of the project as they are."""
    course = {"checks", "learner", "lessons", "watching", "explaining", "explore", "classroom", "cli"}
    assert not breaches(lambda m, i: part(m) in {"sim", "devices"} and part(i.target) in course)


def test_checks_know_no_lesson():
    """The lessons are discovered, so adding one touches no check."""
    assert not breaches(lambda m, i: part(m) == "checks" and lesson_of(i.target))


def test_lessons_never_import_each_other():
    """Each lesson can be read, changed or dropped by itself."""

    def crosses(module: str, found: Import) -> bool:
        own, other = lesson_of(module), lesson_of(found.target)
        # What lessons share is a module of its own, told by its name: it is no lesson.
        return bool(own and other and own != other and other.startswith("lesson_"))

    assert not breaches(crosses)


def test_nothing_needs_explorers_or_the_classroom():
    """Only the command line, and the user by `devlab.explore`, load them; buttons are an explorer."""

    def reaches_in(module: str, found: Import) -> bool:
        on_demand = module in {"devlab", "devlab.cli"} and not found.top_level
        on_demand = on_demand or module in {"devlab.learner.predict", "devlab.learner.card"}
        goal = part(found.target)
        return (
            found.target.startswith("devlab.")
            and goal in {"explore", "classroom"}
            and part(module) != goal
            and not on_demand
        )

    assert not breaches(reaches_in)


def test_importing_the_package_needs_torch_and_numpy_alone():
    """IPython, ipywidgets, matplotlib and nbgrader load in the function that uses them."""
    assert not breaches(
        lambda m, i: i.top_level and i.target.split(".")[0] not in LIGHT and m not in ON_DEMAND
    )
    assert not breaches(lambda m, i: i.target in ON_DEMAND and i.top_level)


def test_no_modules_import_each_other_in_a_circle():
    """Every module can be understood after the ones it imports, those imported inside functions too.

    An import inside a function saves time or a dependency; it never lets two modules need each other.
    """
    needs = {m: {i.target for i in imports(m) if i.target in PATHS} - {m} for m in PATHS}
    while leaves := [module for module, wanted in needs.items() if not wanted & needs.keys()]:
        for module in leaves:
            del needs[module]
    circle = {module: sorted(wanted & needs.keys()) for module, wanted in needs.items()}
    assert not circle, f"these need each other: {circle}"


def test_no_file_name_comes_twice():
    """A name says which file is meant; an exercise's file has its name, a picture the explorer's."""
    named = [
        path.name for path in PATHS.values() if path.name != "__init__.py" and path.parent.name != "pictures"
    ]
    assert sorted(named) == sorted(set(named))


def test_every_exercise_has_a_file_of_its_name():
    """`ls` alone says where an exercise is judged."""
    there = {path.stem for module, path in PATHS.items() if lesson_of(module) and path.stem != "__init__"}
    assert not {exercise.name for exercise in exercises()} - there


def private_names(module: str) -> Iterator[str]:
    """Find `torch._x` and `torch.x._y`, under whatever name torch was imported."""
    names: dict[str, str] = {}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else ""
        elif isinstance(node, ast.ImportFrom):
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    torches = {name: full or name for name, full in names.items() if (full or name).split(".")[0] == "torch"}
    for node in ast.walk(TREES[module]):
        chain = dotted(node)
        root, _, rest = chain.partition(".")
        if root in torches and is_private(f"{torches[root]}.{rest}"):
            yield f"{PATHS[module].relative_to(ROOT).as_posix()}:{node.lineno}: {chain}"


def dotted(node: ast.AST) -> str:
    """Write `torch.cuda.x` as text; anything but a chain of names is no chain."""
    if isinstance(node, ast.Attribute):
        return f"{inner}.{node.attr}" if (inner := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def is_private(name: str) -> bool:
    """Tell whether a dotted name goes through a private one; `__version__` and its like are public."""
    return any(word.startswith("_") and not word.endswith("__") for word in name.split("."))


def test_only_the_simulated_device_touches_pytorchs_private_names():
    """What PyTorch may change without notice is met in one place."""
    found = [use for module in PATHS if part(module) != "sim" for use in private_names(module)]
    found += breaches(lambda m, i: part(m) != "sim" and i.target.startswith("torch") and is_private(i.target))
    assert not found


@pytest.mark.parametrize("module", PATHS)
def test_a_module_is_read_in_one_sitting(module):
    """A module holds one subject; one that outgrows 600 lines holds two, and is cut between them."""
    assert len(PATHS[module].read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_importing_devlab_loads_no_notebook_no_plots_and_no_lesson():
    """Import stays light, in a fresh interpreter."""
    heavy = (
        "IPython",
        "ipywidgets",
        "matplotlib",
        "nbgrader",
        "devlab.lessons.",
        "devlab.explore",
        "devlab.sim",
        "devlab.watching.",
        "devlab.explaining.",
    )
    script = f"import sys, devlab; print([m for m in sys.modules if m.startswith({heavy!r})])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
