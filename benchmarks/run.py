"""Every benchmark, one after the other, and at the end one table of all that the course promises.

Each runs in a process of its own. The exit status is 1 where one could not run; a broken promise is said in
the table and fails nothing, because a busy machine breaks them all.
"""

import subprocess
import sys
from pathlib import Path

from promises import MARK

HERE = Path(__file__).parent
HELPERS = {"run.py", "promises.py"}


def main() -> int:
    """Run what is here, show it as it comes, and print the table."""
    rows, status = [("", "promised of", "measured", "promise", "beside it")], 0
    for script in sorted(HERE.glob("*.py")):
        if script.name in HELPERS:
            continue
        print(f"== {script.name}", flush=True)
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith(MARK):
                    rows.append(tuple(part.strip() for part in line.removeprefix(MARK).split("|")))
                else:
                    print(line, end="", flush=True)
        if process.returncode:
            status = 1
            rows.append(("no run", script.name, "", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for row in rows:
        print("  ".join(f"{part:<{width}}" for part, width in zip(row, widths, strict=True)).rstrip())
    return status


if __name__ == "__main__":
    sys.exit(main())
