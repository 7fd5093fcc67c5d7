"""make, pip, conda, uv and the constraints install the same course: pyproject.toml's."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SYSTEMS = {"linux": ("Linux", "posix"), "darwin": ("Darwin", "posix"), "win32": ("Windows", "nt")}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
INSTALL = 'pip install -c constraints.txt -e ".[{extra}]"'


def ranges(requirements: list[str]) -> dict[str, str]:
    """Map each requirement's name to its range, less references of the project to itself."""
    parsed = [Requirement(line) for line in requirements]
    return {canonicalize_name(r.name): str(r.specifier) for r in parsed if r.name != PROJECT["name"]}


def pins() -> list[Requirement]:
    """Read the constraints."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pinned(environment: dict[str, str]) -> dict[str, str]:
    """Map each package that is pinned in an environment to its version."""
    here = [pin for pin in pins() if not pin.marker or pin.marker.evaluate(environment)]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in here}


def environment(system: str, python: str) -> dict[str, str]:
    """Describe a machine as the markers of requirements see it."""
    platform, os_name = SYSTEMS[system]
    return default_environment() | {
        "sys_platform": system, "platform_system": platform, "os_name": os_name,
        "python_version": python, "python_full_version": f"{python}.5",
    }  # fmt: skip


def needed(environment: dict[str, str], extra: str = "test") -> set[str]:
    """Follow the requirements of `devlab[extra]` to their end, by the metadata of what is installed."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(PROJECT["name"], frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            requirements = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # needed on another system alone: its name counts, its own needs are not known here
        for requirement in map(Requirement, requirements):
            asked = [environment | {"extra": one} for one in extras | {""}]
            if not requirement.marker or any(map(requirement.marker.evaluate, asked)):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in seen} - {PROJECT["name"]}


def test_every_pin_is_exact():
    """A constraint with a range would let two machines differ."""
    loose = [str(pin) for pin in pins() if not re.fullmatch(r"==[\w.!+]+", str(pin.specifier))]
    assert not loose


def test_every_pin_lies_in_the_range_that_the_project_promises():
    """pyproject.toml's ranges admit what the tests ran with."""
    promised = ranges(PROJECT["dependencies"]) | ranges([r for extra in EXTRAS.values() for r in extra])
    here = pinned(default_environment())
    for name, range_ in promised.items():
        assert Requirement(f"{name}{range_}").specifier.contains(here[name]), name


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_all_that_is_needed_is_pinned(system, python):
    """No package, however deep, is left to the day of the installation."""
    machine = environment(system, python)
    missing = needed(machine) - pinned(machine).keys()
    assert not missing, f"add to constraints.txt, with a marker if only {system} needs it: {sorted(missing)}"


def test_what_is_installed_is_what_is_pinned():
    """The tests run with the pins, not beside them."""
    here = pinned(default_environment())
    for name in needed(default_environment()):
        assert Version(distribution(name).version).public == here[name], f"{name}: run `make test` anew"


def locked() -> dict[str, tuple[Requirement, int]]:
    """Map each package of requirements.lock to its requirement and the number of its hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.partition(" --hash=") for line in text.splitlines() if not line.startswith("#")]
    parsed = [
        (Requirement(pin.strip()), f"{mark}{hashes}".count("--hash=sha256:")) for pin, mark, hashes in lines
    ]
    return {canonicalize_name(pin.name): (pin, hashes) for pin, hashes in parsed}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_uv_installs_what_pip_installs(system, python):
    """requirements.lock holds what `devlab[lab]` needs, at the versions of the constraints, with hashes."""
    machine = environment(system, python)
    here = {
        name: pin for name, (pin, _) in locked().items() if not pin.marker or pin.marker.evaluate(machine)
    }
    pins = pinned(machine)
    missing = needed(machine, "lab") - here.keys()
    assert not missing, f"run `make locked`: requirements.lock lacks {sorted(missing)}"
    for name, pin in here.items():
        # torch's build for Linux brings CUDA's packages, and pins them itself.
        if name in pins or not name.startswith(("nvidia-", "cuda-", "triton")):
            assert str(pin.specifier) == f"=={pins[name]}", f"{name}: run `make locked`"
    assert all(hashes for _, hashes in locked().values())


def test_every_pin_admits_the_oldest_python():
    """Debian's Python 3.11 is 3.11.2, and a pin that asks for 3.11.5 leaves its users without the course."""
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    asked = {
        name: distribution(name).metadata.get("Requires-Python") for name in needed(default_environment())
    }
    refusing = {
        name: range_ for name, range_ in asked.items() if range_ and oldest not in SpecifierSet(range_)
    }
    assert not refusing


def test_conda_installs_the_same_names_and_ranges():
    """environment.yml asks for Python, and through pip for what pyproject.toml asks for, pinned alike."""
    wanted = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, by_pip = wanted["dependencies"]
    lines = by_pip["pip"]
    assert (python, pip) == (f"python{PROJECT['requires-python']}", "pip")
    assert "-c constraints.txt" in lines
    assert "-e .[lab]" in lines
    listed = ranges([line for line in lines if not line.startswith("-")])
    assert listed == ranges(PROJECT["dependencies"] + EXTRAS["lab"])


@pytest.mark.parametrize("extra", ["lab", "test"])
def test_make_installs_the_extras_with_the_pins(extra):
    """`make lab` and `make test` install an extra of that name."""
    assert extra in EXTRAS
    assert INSTALL.format(extra=extra) in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("extra", ["lab", "test"])
def test_the_readme_shows_the_same_commands_for_machines_without_make(extra):
    """The README holds the very commands, to be copied."""
    command = INSTALL.format(extra=extra)
    assert command in (ROOT / "README.md").read_text(encoding="utf-8"), f"README.md does not show: {command}"


def test_the_makefile_asks_for_the_python_that_the_project_asks_for():
    """The oldest Python is written in three places, which agree."""
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f"({oldest.replace('.', ', ')})" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f'"{oldest}"' in (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
