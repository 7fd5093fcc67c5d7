"""Ask PyTorch's own tests whether `sim` is a device: run them on `sim`, and what fails there on the CPU.

    python benchmarks/pytorchs_tests/ask.py FOLDER                     # all of FILES, recorded
    python benchmarks/pytorchs_tests/ask.py FOLDER test_view_ops.py    # one file, not recorded

FOLDER is a checkout of PyTorch, or its source package as a distribution carries it; no file of PyTorch's is
copied. Its release should be near the installed one. The tests need `expecttest` and `scipy` beside
what devlab needs, so run this in a virtual environment of its own.

PyTorch marks tests as generic when they run on any device; those alone are asked. A test that fails on the
CPU as well says nothing about the simulator. A test that ends the process is counted as a death, and the
other tests of its file go on in a new process.
"""

import argparse
import ast
import collections
import importlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve()
RECORDED = HERE.parents[1] / "recorded" / "pytorchs_tests.json"
FILES = (
    *("test_view_ops.py", "test_indexing.py", "test_shape_ops.py", "test_type_promotion.py"),
    *("test_torch.py", "test_tensor_creation_ops.py", "test_scatter_gather_ops.py", "test_dlpack.py"),
    *("test_sort_and_select.py", "test_reductions.py", "test_binary_ufuncs.py", "test_complex.py"),
    *("test_linalg.py", "test_spectral_ops.py", "test_segment_reductions.py", "test_numpy_interop.py"),
    *("test_nn.py", "test_autograd.py", "test_serialization.py", "test_native_mha.py", "test_optim.py"),
    *("nn/test_convolution.py", "nn/test_dropout.py", "nn/test_embedding.py", "nn/test_pooling.py"),
    *("nn/test_multihead_attention.py", "nn/test_parametrization.py"),
)
# A failure whose test or words name one of these is expected: kinds of tensors that are not simulated,
# PyTorch's copy-on-write storage, and its choice among libraries for convolutions.
NOT_SIMULATED = re.compile(
    r"sparse|quantiz|_cow_|copy.on.write|lazy_clone|ConvBackend|conv_backend|nested.?tensor|mkldnn",
    re.IGNORECASE,
)
FILE = "(the file itself)"  # what failed where no test of a file was collected
SLOWEST = 60  # seconds for one test
BASES = {"sim": "privateuse1", "cpu": "cpu"}  # the kind of device, as PyTorch's tests know it


def main() -> int:
    """Run the files, print a table of them and what is the simulator's own, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of PyTorch, or its source package, unpacked")
    parser.add_argument(
        "files", nargs="*", help="files below its folder test; all that are listed here if none"
    )
    parser.add_argument("--child", nargs=3, metavar=("DEVICE", "LOG", "ONLY"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    tests = asked.folder.resolve() / "test"
    if asked.child:
        return _child(tests / asked.files[0], *asked.child)
    if not tests.is_dir():
        parser.error(f"{asked.folder} has no folder named test: give the top of a PyTorch checkout")
    table, own = {}, {}
    for file in asked.files or FILES:
        if not (tests / file).is_file():
            print(f"{file}: this PyTorch has no such file", flush=True)
            continue
        on_sim = _run(asked.folder, file, "sim", None)
        failed = {name for name, (outcome, _) in on_sim.items() if outcome not in ("passed", "skipped")}
        on_cpu = _run(asked.folder, file, "cpu", failed) if failed else {}
        if FILE in on_cpu:
            print(f"{file}: not asked, for it cannot be imported here: {on_cpu[FILE][1]}", flush=True)
            continue
        mine = {name: on_sim[name] for name in failed if on_cpu.get(name, ("passed",))[0] == "passed"}
        count = collections.Counter(outcome for outcome, _ in on_sim.values())
        expected = {name for name, (_, why) in mine.items() if NOT_SIMULATED.search(f"{name} {why}")}
        table[file] = {
            "run": len(on_sim) - count["skipped"],
            "passed": count["passed"],
            "deaths": count["died"],
            "fail on the CPU too": len(failed) - len(mine),
            "not simulated": len(expected),
            "the simulator's own": len(mine) - len(expected),
        }
        own |= {
            f"{file}::{name}": f"{mine[name][0]}: {mine[name][1]}" for name in sorted(mine.keys() - expected)
        }
        print(f"{file}: " + ", ".join(f"{number} {what}" for what, number in table[file].items()), flush=True)
    total = {what: sum(row[what] for row in table.values()) for what in next(iter(table.values()), {})}
    print("\nall: " + ", ".join(f"{number} {what}" for what, number in total.items()))
    for name, why in own.items():
        print(f"  {name}\n    {why}")
    if not asked.files:
        RECORDED.write_text(
            json.dumps(_record(asked.folder, table, total, own), indent=1) + "\n", encoding="utf-8"
        )
    return 0


def _record(folder: Path, table: dict, total: dict, own: dict) -> dict:
    import torch

    version = folder / "version.txt"
    return {
        "source": "PyTorch's device-generic tests, run on the simulated accelerator and on the CPU",
        "tests of": version.read_text(encoding="utf-8").strip() if version.exists() else folder.name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "all": total,
        "files": table,
        "the simulator's own": own,
    }


def _run(folder: Path, file: str, device: str, only: set[str] | None) -> dict[str, tuple[str, str]]:
    """Run the generic tests of a file in processes, a new one after each death: outcome and words by name."""
    results: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as place:
        log, wanted = Path(place, "log"), Path(place, "only")
        wanted.write_text(json.dumps(only and sorted(only)), encoding="utf-8")
        while True:
            log.touch()
            command = [sys.executable, HERE, folder, file, "--child", device, log, wanted]
            env = os.environ | {"PYTORCH_TESTING_DEVICE_ONLY_FOR": BASES[device], "OMP_NUM_THREADS": "1"}
            env.pop("DEVLAB_DEVICE", None)
            done = subprocess.run(command, capture_output=True, text=True, cwd=place, env=env, check=False)
            lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            started = next((name for name, outcome, _ in reversed(lines) if outcome == "started"), None)
            results = {name: (outcome, why) for name, outcome, why in lines if outcome != "started"}
            if done.returncode >= 0 and (lines or not done.returncode):
                return results
            if started is None or started in results:
                said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
                return results | {FILE: ("not collected", said[0])}
            with log.open("a", encoding="utf-8") as stream:
                words = f"signal {signal.Signals(-done.returncode).name}"
                stream.write(json.dumps([started, "died", words]) + "\n")


def _child(path: Path, device: str, log: str, only: str) -> int:
    """Run the generic tests of a file in this process, without those that the log has already."""
    import pytest

    if device == "sim":
        import devlab.sim

        devlab.sim.enable()
    _stand_in(path)
    names = json.loads(Path(only).read_text(encoding="utf-8"))
    log = Path(log)
    seen = {json.loads(line)[0] for line in log.read_text(encoding="utf-8").splitlines()}
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    arguments = ["-q", "--noconftest", "--import-mode=importlib", "--tb=no", "-W", "ignore", "-c", os.devnull]
    arguments += [f"--rootdir={path.parent}", str(path)]
    for plugin in ("cacheprovider", "devlab", "xdist"):
        arguments += ["-p", f"no:{plugin}"]
    return min(int(pytest.main(arguments, plugins=[_Asking(device, log, names, seen)])), 1)


class _StandIn:
    """In the place of a helper that the installed release lacks: false, empty, and as a decorator nothing."""

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __bool__(self) -> bool:
        return False

    def __iter__(self):
        return iter(())


def _stand_in(path: Path) -> None:
    """Give torch.testing what a file imports and this release lacks, so that its other tests can be asked."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.testing."):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name) and not hasattr(module, "__path__"):
                    setattr(module, alias.name, _StandIn())


class _Asking:
    """A plugin of pytest: keeps the generic tests alone, gives each its time, and writes down how it went."""

    def __init__(self, device: str, log: Path, only: list[str] | None, seen: set[str]):
        self.device, self.suffix = device, BASES[device].upper()
        self.only, self.seen = only, seen
        self.log = log.open("a", encoding="utf-8", buffering=1)

    def _name(self, nodeid: str) -> str:
        """Return a test's name without its device's, so that both devices have one name for it."""
        kind, _, test = nodeid.partition("::")[2].partition("::")
        return f"{kind.removesuffix(self.suffix)}::{re.sub(f'_{self.device}(?=_|$)', '', test)}"

    def _write(self, nodeid: str, outcome: str, words: str = "") -> None:
        self.log.write(json.dumps([self._name(nodeid), outcome, words]) + "\n")

    def pytest_collection_modifyitems(self, items) -> None:
        items[:] = [
            item
            for item in items
            if item.cls is not None
            and item.cls.__name__.endswith(self.suffix)
            and (self.only is None or self._name(item.nodeid) in self.only)
            and self._name(item.nodeid) not in self.seen
        ]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(nodeid, "started")
        signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(SLOWEST)

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
            first = next(
                (line for line in str(crash or report.longrepr or "").splitlines() if line.strip()), ""
            )
            self._write(report.nodeid, report.outcome, first[:200] if report.outcome == "failed" else "")

    def pytest_runtest_logfinish(self) -> None:
        signal.alarm(0)


def _too_slow(*_) -> None:
    raise TimeoutError(f"the test took longer than {SLOWEST} s")


if __name__ == "__main__":
    sys.exit(main())
