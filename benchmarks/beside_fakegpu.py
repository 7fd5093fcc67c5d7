"""How many of the table's mixed-device calls are refused: by `sim`, and by FakeGPU, whose checkout is named.

    python benchmarks/beside_fakegpu.py PATH_OF_A_CHECKOUT

Each of the two needs a process of its own: FakeGPU replaces parts of torch.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE / "recorded" / "h200" / "mixed_devices.json"

COUNT = """
import json, sys
sys.path[:0] = [{paths}]
{begin}
import torch
import mixed_devices
known = json.load(open({table!r}))["cases"]
made = mixed_devices.record(torch.device({device!r}))
refused = [name for name, what in known.items() if "error" in what]
print(len(refused), sum("error" in made[name] for name in refused))
"""


def count(begin: str, device: str, *paths: Path) -> tuple[int, int]:
    """Return how many calls PyTorch refuses by its rules, and how many of them are refused here."""
    folders = ", ".join(repr(str(path)) for path in (*paths, HERE / "hardware"))
    code = COUNT.format(paths=folders, begin=begin, table=str(TABLE), device=device)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    asked, refused = next(line.split() for line in said.splitlines() if line.replace(" ", "").isdigit())
    return int(asked), int(refused)


def main() -> None:
    """Print both counts."""
    print(f"{len(json.loads(TABLE.read_text())['cases'])} calls with one argument on the CPU")
    asked, refused = count("from devlab import sim; sim.enable()", "sim:0")
    print(f"sim: {refused} of {asked} calls are refused")
    fake = "import fakegpu; fakegpu.init(runtime='fakecuda', profile='t4', device_count=2)"
    for checkout in sys.argv[1:]:
        asked, refused = count(fake, "cuda:0", Path(checkout))
        print(f"FakeGPU, a tensor on cuda:0 and one on the CPU: {refused} of {asked} calls are refused")


if __name__ == "__main__":
    main()
