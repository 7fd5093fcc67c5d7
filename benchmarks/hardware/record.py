"""Record what real hardware does, so that the simulator and the checks can be held to it.

    python benchmarks/hardware/record.py                     # on CUDA, into benchmarks/recorded/<the GPU>
    python benchmarks/hardware/record.py --only allocator    # one recording of them all
    python benchmarks/hardware/record.py --compare benchmarks/recorded/h200    # with sim, no GPU
    python benchmarks/hardware/record.py --device sim --out build/recorded     # a rehearsal, no GPU

It needs Python, torch and NumPy and nothing else: run it in a clone, without installing devlab. Each
recording is one file that names the GPU, the day, the driver and the versions, in a folder for each GPU. At
the end it says in how many cases the simulator agrees. A rehearsal says "simulated" in the place of the GPU
and is never written among the recordings.
"""

import argparse
import datetime
import gzip
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "benchmarks" / "recorded"
# The allocator comes first: it wants a device on which nothing has run yet. What measures time has the GPU
# to itself; what runs in several processes comes after it.
RECORDINGS = (
    "allocator",
    "mixed_devices",
    "bandwidth",
    "launches",
    "crossover",
    "synchronizations",
    "measured",
    "operators_by_dtype",
    "operators_waits_and_bytes",
    "late_errors",
    "banks_by_exercise",
)


def source(device) -> dict[str, str]:
    """Return where a recording comes from: the hardware, the day and the versions."""
    import numpy
    import torch

    versions = {
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }
    if device.type == "sim":
        return {"source": "simulated, not recorded", **versions}
    name = torch.get_device_module(device).get_device_name(device)
    today = datetime.date.today().isoformat()
    return {"source": f"recorded on {name}", "date": today, "driver": _driver(), **versions}


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown: nvidia-smi gave no answer"
    return answer.stdout.split("\n")[0].strip()


def folder_of(gpu: str) -> str:
    """Return the folder of a GPU, after its name: `h200` of "NVIDIA H200", `t4` of "Tesla T4".

    >>> folder_of("NVIDIA GeForce RTX 4090"), folder_of("Tesla T4")
    ('rtx_4090', 't4')
    """
    words = re.sub(r"\b(NVIDIA|Tesla|GeForce)\b", "", gpu).lower()
    return "_".join(re.findall(r"[a-z0-9]+", words))


def asked(name: str, device) -> dict[str, object]:
    """Return the cases of one recording."""
    from hardware import parts

    recording = importlib.import_module(f"hardware.{name}")
    if hasattr(recording, "record"):
        return recording.record(device)
    names, at_once = recording.names(), parts.most_at_once()
    if device.type == "sim" and at_once == 1:
        return parts.ask_here(recording, device, names)
    return parts.ask_in_parts(name, device, names, at_once=at_once)


def write(name: str, device, folder: Path) -> Path:
    """Make one recording, write it to `folder`, and return its path."""
    from hardware.agreement import path_of

    begun = time.perf_counter()
    head, cases = source(device), asked(name, device)
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, name)
    if path.suffix == ".gz":
        lines = [json.dumps(row) + "\n" for row in (head, *cases.values())]
        path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    else:
        path.write_text(json.dumps({**head, "cases": cases}, indent=1) + "\n", encoding="utf-8")
    print(f"{name:<25} {len(cases):>5} cases  {time.perf_counter() - begun:>6.1f} s  {path}", flush=True)
    return path


def compare(folder: Path, *, drop_mended: bool = False) -> int:
    """Print where the simulator agrees with a folder; the status is 1 where its list is not right."""
    from hardware import agreement

    device, answers, status = wake("sim"), {}, 0
    print(f"The simulator beside {folder}:")
    for comparison, rule in agreement.COMPARISONS.items():
        if not agreement.path_of(folder, rule.recording).exists():
            print(f"{comparison:<20} not recorded")
            continue
        module = rule.simulated_by or rule.recording
        if module not in answers:
            answers[module] = asked(module, device)
        found = agreement.compared(folder, comparison, answers[module])
        print(found, flush=True)
        if drop_mended:
            agreement.drop(folder, comparison, found.mended)
        status |= bool(found.new or found.mended)
    return int(status)


def main(arguments: list[str] | None = None) -> int:
    """Make the recordings that are asked for; the exit status is 2 where they cannot be made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or sim for a rehearsal")
    parser.add_argument("--out", type=Path, help="where the files go (a folder that is called like the GPU)")
    parser.add_argument("--only", nargs="+", choices=RECORDINGS, default=RECORDINGS, metavar="NAME")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="compare the simulator with it, alone")
    parser.add_argument(
        "--drop-mended", action="store_true", help="take out of FOLDER's differences what no longer differs"
    )
    parser.add_argument("--part", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.compare:
        return compare(options.compare, drop_mended=options.drop_mended)

    simulated = options.device.startswith("sim")
    among = options.out and options.out.resolve().is_relative_to(RECORDED)
    if simulated and not options.part and (among or options.out is None):
        print(f"Simulated figures do not go to {RECORDED}. Name another folder with --out.")
        return 2
    try:
        device = wake(options.device)
    except (RuntimeError, ValueError):
        print(f"{options.device} is not here. To rehearse without it: --device sim --out build/recorded")
        return 2
    if options.part:
        return _answer_part(*options.part, device)
    return _record(options.only, device, options.out)


def _record(names, device, folder: Path | None) -> int:
    """Make recordings and compare the simulator with them, in a process of its own."""
    import torch
    from hardware.samples import NoDatabase

    said = source(device)["source"]
    print(said)
    folder = folder or RECORDED / folder_of(said.removeprefix("recorded on "))
    for name in names:
        try:
            write(name, device, folder)
            torch.accelerator.empty_cache()  # other processes are to find the memory free
        except NoDatabase as error:
            print(f"{name}: not recorded. {error}", flush=True)
    if device.type != "sim":
        variables = {key: value for key, value in os.environ.items() if not key.startswith("DEVLAB")}
        subprocess.run([sys.executable, __file__, "--compare", str(folder)], env=variables, check=False)
    return 0


def _answer_part(name: str, file: str, device) -> int:
    """Answer the questions on standard input, as one process of several, and end it."""
    from hardware import parts

    status = parts.answer_part(importlib.import_module(f"hardware.{name}"), device, Path(file))
    sys.stderr.flush()
    os._exit(status)  # to tidy up a device that takes no more work may take for ever


def wake(name: str):
    """Return the device of a name; the course then judges on it as it does for a learner.

    Raises:
        RuntimeError or ValueError: when it is not here.
    """
    import torch

    simulated = name.startswith("sim")
    os.environ["DEVLAB_DEVICE"] = "sim" if simulated else str(torch.device(name))
    from devlab.devices import accelerators

    device = accelerators()[0]
    torch.accelerator.set_device_index(device)  # events are recorded there, whatever its number
    return device


if __name__ == "__main__":
    # A clone is enough: the package, the banks of answers and these modules are found beside this file.
    sys.path[:0] = [str(ROOT / part) for part in ("src", "tests", "benchmarks")]
    sys.exit(main())
