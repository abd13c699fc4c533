"""A writer that sets lake properties: run with LAKE NAME COMMITS.

Says `ready`, waits for a line on standard input, then commits and prints one line per acknowledged commit:
its version and transaction id. Whoever started it can kill or stop it at any moment, and knows what it
was told.
"""

from __future__ import annotations

import json
import os
import sys

from headgate.lake.lake import Lake


def main() -> None:
    place, name, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
    options = json.loads(os.environ.get("HEADGATE_STORE_OPTIONS", "{}"))
    lake = Lake.open(place, options=options)
    _say("ready")
    sys.stdin.readline()
    for number in range(commits):
        result = lake.set_properties({f"{name}.{number}": "x"}, args=[name, str(number)])
        _say(f"{result.version} {result.txid}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
