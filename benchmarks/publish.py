"""All benchmarks, one after the other, and the page `docs/benchmarks.md` made of them.

make bench       or       .venv/bin/python -m benchmarks.publish [--quick] [--page FILE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.page import machine

BENCHMARKS = ("commits", "appends", "contention", "planning", "spark_io", "merges")
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def heading() -> str:
    """The page before anything was measured."""
    return f"""# Benchmarks

Made by `make bench` on a machine with {machine()}. A ratio below 1 means that Headgate needs less time
than the other; both sides take turns, on the same machine and in the same minutes. Lines that begin
with a dash are promises.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, to see that everything runs")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    given.page.write_text(heading())
    for name in BENCHMARKS:
        # Each in a process of its own: none finds the machine as another left it.
        command = [sys.executable, "-m", f"benchmarks.{name}", "--markdown", str(given.page)]
        subprocess.run([*command, *(["--quick"] if given.quick else [])], check=True, cwd=PAGE.parent.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
