"""Prints which broken protocols the explorer catches: `python tests/exploration/variants_report.py`.

With `--schedules`, also the shortest schedule that shows each of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.exploration.explorer import Explorer

ROW = "{:<65}{:>9}{:>7}{:>9}  {}\n"


def explorers() -> Iterator[tuple[str, Explorer]]:
    from tests.exploration.seed_model import HARMS
    from tests.exploration.variants import VARIANTS

    yield from ((variant.name, variant.explorer()) for variant in VARIANTS)
    yield from ((f"the original rules: {harm.name}", harm.explorer()) for harm in HARMS)


def main(arguments: list[str]) -> int:
    """Returns 1 if one was not caught."""
    sys.stdout.write(ROW.format("variant", "worlds", "steps", "seconds", "caught by"))
    missed = 0
    for name, explorer in explorers():
        started = time.monotonic()
        exploration = explorer.explore()
        violation = exploration.violation
        law, steps = ("NOT CAUGHT", 0) if violation is None else (violation.law, len(violation.schedule))
        seconds = f"{time.monotonic() - started:.1f}"
        sys.stdout.write(ROW.format(name, f"{exploration.worlds:,}", steps, seconds, law))
        if "--schedules" in arguments:
            sys.stdout.write(f"{violation}\n\n")
        missed += violation is None
    return int(missed > 0)


if __name__ == "__main__":
    # Run as a file, only its own directory is on the path.
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.exit(main(sys.argv[1:]))
