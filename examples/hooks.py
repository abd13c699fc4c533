"""Hooks: actions that run after a commit. One fails at first, so its run stays open for later.

Run it with `.venv/bin/python examples/hooks.py`. It works in a temporary directory.
"""

import json
import tempfile
from pathlib import Path

import pyarrow as pa

import headgate as hg
from headgate.hooks import Audit, Command, CommitEvent, Hook, Python, When

with tempfile.TemporaryDirectory() as directory:
    place, audit, ready = (Path(directory) / name for name in ("lake", "audit.jsonl", "ready"))

    def look(event: CommitEvent) -> None:
        """The version is committed before any hook runs."""
        print(f"  hook: version {event.version} has", *hg.Lake.open(place).tables())

    hooks = [
        Hook("audit", Audit(audit), when=When(tables=["sales.*"])),
        Hook("look", Python(look), when=When(kinds=["append"])),
        # A program that fails until the file exists; a real one would copy, publish, or start something.
        Hook("check", Command(["test", "-e", str(ready)]), retry=hg.RetryPolicy(attempts=1)),
        Hook("tell", Python(lambda event: print("  hook: notified of", event.id[-2:])), after=["check"]),
    ]
    lake = hg.Lake.init(place, hooks=hooks)
    orders = lake.create_table("sales.orders", "id BIGINT, amount DOUBLE")
    orders.append(pa.table({"id": [1, 2], "amount": [9.5, 1.25]}))

    # The commits stand. Hook runs that are not done are stored with the reason.
    for hook in lake.open_hooks():
        print(f"open: version {hook.version}, {hook.run.name}: {hook.run.state.value}, {hook.run.error}")

    # The cause is fixed: retry the failed run; then the hook that waits for it runs, too.
    ready.touch()
    ran = lake.run_hooks(retry=True)
    print("done:", ", ".join(ran.done), "- open:", len(ran.open))

    for line in audit.read_text().splitlines():
        change = json.loads(line)
        print(f"audit: version {change['version']} {change['path']}: {change['rows_added']} rows added")
