"""Ask PyTorch's own tests whether `sim` is a device: run them on `sim`, and what fails there on the CPU.

    python benchmarks/pytorchs_tests/ask.py FOLDER --record                    # all of FILES
    python benchmarks/pytorchs_tests/ask.py FOLDER test_view_ops.py --record   # one file; the rest as it was
    python benchmarks/pytorchs_tests/ask.py FOLDER test_view_ops.py            # only to see

FOLDER is a checkout of PyTorch, or its source package as a distribution carries it; no file of PyTorch's is
copied. Its release should be near the installed one. The tests need `expecttest` and `scipy` beside
what devlab needs, so run this in a virtual environment of its own.

PyTorch marks tests as generic when they run on any device; those alone are asked, and the tests of
torch_openreg, PyTorch's own example of an extension's device, with the name `sim` in the place of `openreg`.
A test that fails on the CPU as well says nothing about the simulator. A test that ends the process is counted
as a death, and the other tests of its file go on in a new process.
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
# The tests of torch_openreg, PyTorch's own example of an extension's device; newer releases have the folder.
OPENREG = ("test_openreg.py", "cpp_extensions/open_registration_extension/torch_openreg/tests/test_*.py")
# Why a failure may not be the simulator's own: a pattern for the test's name and the first line of its error.
REASONS = {
    # Kinds of tensors that docs/simulator.md names, PyTorch's copy-on-write storage, and its choice among
    # libraries for convolutions.
    "not simulated": r"sparse|quantiz|QUInt|_cow_|copy.on.write|lazy_clone|ConvBackend|conv_backend|"
    r"nested.?tensor|mkldnn|int4pack",
    # `sim` refuses what CUDA refuses; the test expects that refusal of a device that is called cuda.
    "refused as on CUDA": r"NotImplementedError: \"\w+\" not implemented for '|"
    r"did not expect non-deterministic error message, but got one anyway|"
    r"map2?_ is only implemented on CPU tensors",
    "needs more memory": r"OutOfMemoryError: sim out of memory\.",
    # The test asks for the name cuda and takes every other device for the CPU, in what concerns the old
    # classes of storages and tensors, the scaler under torch.cuda, an index that is left on the CPU, what an
    # old GPU lacks, the release of CUDA, and labels that the device itself looks at.
    "the test knows CUDA and the CPU alone": r"::test_tensor_storage_type_|::test_grad_scaling_state_dict\b|"
    r"::test_grad_scaler_deprecated_warning\b|::test_stable_sort_against_numpy_|::test_addbmm_bfloat16\b|"
    r"::test_linalg_lstsq_input_checks_|::test_one_hot\b",
    # What torch_openreg has in C++ of its own, the notes of its tensors among that; the names of PyTorch's
    # threads; and a file whose layout depends on the length of the device's name.
    "torch_openreg's own": r"'_OpNamespace' 'sim' object has no attribute '|"
    r"module 'torch.sim' has no attribute '_C'|"
    r"::test_autograd_init\b|::test_open_device_numpy_serialization\b|::test_serialization\b.*mappings",
    "gone from the installed torch": r"empty\(\) got an unexpected keyword argument 'names'",
}
ON_CPU = "fail on the CPU too"
OWN = "the simulator's own"
FILE = "(the file itself)"  # what failed where no test of a file was collected
# A test has this many seconds of the processor, and of the clock on the wall, where others run beside it.
ALARMS = ((signal.ITIMER_PROF, signal.SIGPROF, 60), (signal.ITIMER_REAL, signal.SIGALRM, 900))
MEMORY = 6 << 30  # bytes of a simulated device, for PyTorch's tests are written for GPUs
# The kind of device, as PyTorch's tests know it.
BASES = {"sim": "privateuse1", "openreg": "privateuse1", "cpu": "cpu"}
# How the name of a generic class ends. PyTorch's tests learn the device's own name when the first test of a
# file is made, so that the classes that follow carry the device's own name.
ENDINGS = {"sim": ("PRIVATEUSE1", "SIM"), "openreg": ("",), "cpu": ("CPU",)}


def main() -> int:
    """Run the files, print a table of them and what is the simulator's own, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of PyTorch, or its source package, unpacked")
    parser.add_argument(
        "files", nargs="*", help="files below its folder test; all that are listed here if none"
    )
    parser.add_argument("--record", action="store_true", help="write down the rows of the files")
    parser.add_argument("--openreg", type=Path, help="a folder of torch_openreg's tests, for those in FOLDER")
    parser.add_argument(
        "--child", nargs=4, metavar=("DEVICE", "LOG", "ONLY", "DRAWS"), help=argparse.SUPPRESS
    )
    asked = parser.parse_args()
    tests = asked.folder.resolve() / "test"
    if asked.child:
        return _child(tests / asked.files[0], *asked.child)
    if not tests.is_dir():
        parser.error(f"{asked.folder} has no folder named test: give the top of a PyTorch checkout")
    table, own = {}, {}
    openreg = sorted(asked.openreg.resolve().glob("test_*.py")) if asked.openreg else []
    openreg = openreg or sorted(path for names in OPENREG for path in tests.glob(names))
    paths = [tests / file for file in asked.files or FILES]
    for path in paths if asked.files else paths + openreg:
        if not path.is_file():
            print(f"{path}: there is no such file", flush=True)
            continue
        file = f"torch_openreg/{path.name}" if path in openreg else path.relative_to(tests).as_posix()
        on_sim = _run(asked.folder, path, "openreg" if path in openreg else "sim", None)
        failed = {name for name, (outcome, _) in on_sim.items() if outcome not in ("passed", "skipped")}
        reasons = {name: _reason(f"{name} {on_sim[name][1]}") for name in failed}
        unknown = {name for name, reason in reasons.items() if reason == OWN}
        on_cpu = _run_on_cpu(asked.folder, path, unknown) if unknown and path not in openreg else {}
        if FILE in on_cpu:
            print(f"{file}: not asked, for it cannot be imported here: {on_cpu[FILE][1]}", flush=True)
            continue
        reasons |= {name: ON_CPU for name in unknown if on_cpu.get(name, ("passed",))[0] != "passed"}
        count = collections.Counter(outcome for outcome, _ in on_sim.values())
        table[file] = {
            "run": len(on_sim) - count["skipped"],
            "passed": count["passed"],
            "deaths": count["died"],
            **{reason: list(reasons.values()).count(reason) for reason in (*REASONS, ON_CPU, OWN)},
        }
        print(f"{file}: " + ", ".join(f"{number} {what}" for what, number in table[file].items()), flush=True)
        for name in sorted(name for name, reason in reasons.items() if reason == OWN):
            own[f"{file}::{name}"] = why = ": ".join(on_sim[name])
            print(f"  {name}\n    {why}", flush=True)
        if asked.record:  # after each file, for all of them may take an hour
            record = _record(asked.folder, table, own)
            RECORDED.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    total = _record(asked.folder, table, own)["all"]
    print("\nall: " + ", ".join(f"{number} {what}" for what, number in total.items()))
    return 0


def _reason(failure: str) -> str:
    return next((why for why, words in REASONS.items() if re.search(words, failure, re.IGNORECASE)), OWN)


def _record(folder: Path, table: dict, own: dict) -> dict:
    """Return what is to be recorded: these rows, and those of other files that were recorded of the same."""
    import torch

    version = folder / "version.txt"
    about = {
        "source": "PyTorch's device-generic tests, run on the simulated accelerator and on the CPU",
        "tests of": version.read_text(encoding="utf-8").strip() if version.exists() else folder.name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }
    before = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    if all(before.get(name) == value for name, value in about.items()):
        kept = {name: why for name, why in before[OWN].items() if name.partition("::")[0] not in table}
        table, own = before["files"] | table, kept | own
    total = {what: sum(row[what] for row in table.values()) for what in next(iter(table.values()), {})}
    return about | {"all": total, "files": table, OWN: own}


def _run_on_cpu(folder: Path, path: Path, failed: set[str]) -> dict[str, tuple[str, str]]:
    """Run tests on the CPU, and what passes there again with the random numbers that `sim` draws."""
    results = _run(folder, path, "cpu", failed)
    passed = {name for name, (outcome, _) in results.items() if outcome == "passed"}
    return results | (_run(folder, path, "cpu", passed, "as sim") if passed else {})


def _run(
    folder: Path, path: Path, device: str, only: set[str] | None, draws=""
) -> dict[str, tuple[str, str]]:
    """Run the generic tests of a file in processes, a new one after each death: outcome and words by name."""
    results: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as place:
        log, wanted = Path(place, "log"), Path(place, "only")
        wanted.write_text(json.dumps(only and sorted(only)), encoding="utf-8")
        while True:
            log.touch()
            command = [sys.executable, HERE, folder, path, "--child", device, log, wanted, draws]
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


def _child(path: Path, device: str, log: str, only: str, draws: str) -> int:
    """Run the generic tests of a file in this process, without those that the log has already."""
    import pytest

    if device != "cpu":
        import devlab.sim

        devlab.sim.enable()
        for index in range(devlab.sim.device_count()):
            devlab.sim.accounts.set_capacity(MEMORY, index)
    if draws:
        _draw_as_sim()
    if device == "openreg":
        path = _renamed(path, Path("tests_for_sim"))
    _stand_in(path)
    names = json.loads(Path(only).read_text(encoding="utf-8"))
    log = Path(log).resolve()
    seen = {json.loads(line)[0] for line in log.read_text(encoding="utf-8").splitlines()}
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    arguments = ["-q", "--noconftest", "--import-mode=importlib", "--tb=no", "-c", os.devnull]
    arguments += [f"--rootdir={path.parent}", str(path)]
    for plugin in ("cacheprovider", "devlab", "xdist"):
        arguments += ["-p", f"no:{plugin}"]
    return min(int(pytest.main(arguments, plugins=[_Asking(device, log, names, seen)])), 1)


def _draw_as_sim() -> None:
    """Let a seed give, on the CPU, the numbers that it gives on `sim`; some tests hold for few numbers."""
    import torch

    from devlab.sim import random_numbers

    seeded = torch.manual_seed
    torch.manual_seed = lambda seed: seeded(seed ^ random_numbers._SALT)


def _renamed(path: Path, place: Path) -> Path:
    """Write torch_openreg's tests down anew, about `sim`, and return where."""
    place.mkdir(exist_ok=True)
    text = path.read_text(encoding="utf-8").replace("torch_openreg.openreg", "torch.sim")
    text = text.replace("torch_openreg", "torch.sim").replace("openreg", "sim")
    renamed = place.resolve() / path.name
    renamed.write_text(text, encoding="utf-8")
    return renamed


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
                    # With this variable PyTorch accepts a test without operators; it is an error otherwise.
                    importlib.import_module("torch.testing._internal.common_methods_invocations")
                    os.environ["OPINFO_RESTRICT_TO_DSL"] = "nothing"


class _Asking:
    """A plugin of pytest: keeps the generic tests alone, gives each its time, and writes down how it went."""

    def __init__(self, device: str, log: Path, only: list[str] | None, seen: set[str]):
        self.device, self.endings = device, ENDINGS[device]
        self.only, self.seen = only, seen
        self.log = log.open("a", encoding="utf-8", buffering=1)

    def _name(self, nodeid: str) -> str:
        """Return a test's name without its device's, so that both devices have one name for it."""
        kind, _, test = nodeid.partition("::")[2].partition("::")
        kind = next((kind.removesuffix(end) for end in self.endings if kind.endswith(end)), kind)
        # Where the device's name stands twice, the last is the device.
        test = re.sub(rf"(.*)_{self.device}(?=_|$)", r"\1", test)
        return f"{kind}::{test}"

    def _write(self, nodeid: str, outcome: str, words: str = "") -> None:
        self.log.write(json.dumps([self._name(nodeid), outcome, words]) + "\n")

    def pytest_collection_modifyitems(self, items) -> None:
        items[:] = [
            item
            for item in items
            if item.cls is not None
            and item.cls.__name__.endswith(self.endings)
            and (self.only is None or self._name(item.nodeid) in self.only)
            and self._name(item.nodeid) not in self.seen
        ]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.device != "cpu":
            import devlab.sim

            devlab.sim.reset()  # a device that has failed would fail every later test
        self._write(nodeid, "started")
        for clock, name, seconds in ALARMS:
            signal.signal(name, _too_slow)
            signal.setitimer(clock, seconds)

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
            first = next(
                (line for line in str(crash or report.longrepr or "").splitlines() if line.strip()), ""
            )
            self._write(report.nodeid, report.outcome, first[:200] if report.outcome == "failed" else "")

    def pytest_runtest_logfinish(self) -> None:
        for clock, _, _ in ALARMS:
            signal.setitimer(clock, 0)


def _too_slow(*_) -> None:
    raise TimeoutError("the test took too long")


if __name__ == "__main__":
    sys.exit(main())
