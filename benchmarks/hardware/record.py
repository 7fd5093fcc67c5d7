"""Record what real hardware does, so that the simulator and the checks can be held to it.

    python benchmarks/hardware/record.py                     # on CUDA, into benchmarks/recorded/
    python benchmarks/hardware/record.py --only allocator    # one recording of the seven
    python benchmarks/hardware/record.py --device sim --out build/recorded    # a rehearsal, no GPU

It needs Python, torch and NumPy and nothing else: run it in a clone, without installing devlab. Each
recording is one file that names the GPU, the day, the driver and the versions. A rehearsal says "simulated"
in that place and is never written among the recordings; only the table of mixed devices may be, as
PyTorch's documented rules.
"""

import argparse
import datetime
import importlib
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "benchmarks" / "recorded"
# The allocator comes first: it wants a device on which nothing has run yet.
RECORDINGS = (
    "allocator",
    "mixed_devices",
    "bandwidth",
    "launches",
    "crossover",
    "synchronizations",
    "banks",
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


def write(name: str, device, folder: Path) -> Path:
    """Make one recording, write it to `folder`, and return its path."""
    head = source(device)
    if name == "mixed_devices" and device.type == "sim":
        head["source"] = "documented rules, not recorded"
    begun = time.perf_counter()
    cases = importlib.import_module(f"hardware.{name}").record(device)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**head, "cases": cases}, indent=1) + "\n", encoding="utf-8")
    print(f"{name:<17} {len(cases):>5} cases  {time.perf_counter() - begun:>6.1f} s  {path}", flush=True)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Make the recordings that are asked for; the exit status is 2 where they cannot be made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or sim for a rehearsal")
    parser.add_argument("--out", type=Path, default=RECORDED, help="where the files go")
    parser.add_argument("--only", nargs="+", choices=RECORDINGS, default=RECORDINGS, metavar="NAME")
    options = parser.parse_args(arguments)

    simulated = options.device.startswith("sim")
    measures = [name for name in options.only if name != "mixed_devices"]
    if simulated and measures and options.out.resolve() == RECORDED:
        print(f"{', '.join(measures)}: simulated figures do not go to {RECORDED}. Name a folder with --out.")
        return 2
    try:
        device = _device(options.device, simulated)
    except (RuntimeError, ValueError):
        print(f"{options.device} is not here. To rehearse without it: --device sim --out build/recorded")
        return 2
    print(source(device)["source"])
    for name in options.only:
        write(name, device, options.out)
    return 0


def _device(name: str, simulated: bool):
    """Return the device, awake; the course then judges on it as it does for a learner."""
    import os

    import torch

    os.environ["DEVLAB_DEVICE"] = "sim" if simulated else str(torch.device(name))
    from devlab.devices import accelerators

    return accelerators()[0]


if __name__ == "__main__":
    # A clone is enough: the package, the banks of answers and these modules are found beside this file.
    sys.path[:0] = [str(ROOT / part) for part in ("src", "tests", "benchmarks")]
    sys.exit(main())
