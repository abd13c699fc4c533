"""Hooks of your own: one writes the freshness of tables to a file, the other fails if there are bad rows.

Run it with `.venv/bin/python examples/custom_hook.py`. It works in a temporary directory and needs no Java.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import headgate as hg
from headgate.hooks import CommitEvent, Hook, When


@dataclass(frozen=True)
class Freshness:
    """Keeps the last version that changed each table in a file that a dashboard reads.

    It runs at least once for each commit, but it can run again, or late. So it must be repeatable: it stores
    the version from the event, and never replaces a newer version by an older one.
    """

    file: Path

    def run(self, event: CommitEvent) -> None:
        known = json.loads(self.file.read_text()) if self.file.exists() else {}
        for table in event.tables:
            name = str(table["name"])
            known[name] = max(event.version, known.get(name, 0))
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(known))
        part.replace(self.file)

    def describe(self) -> str:
        return f"keep {self.file.name}"


@dataclass(frozen=True)
class NoNegativeAmounts:
    """Fails if a commit added rows that must not exist. The commit stands; the failure is reported."""

    def run(self, event: CommitEvent) -> None:
        view = hg.Lake.open(event.place).at(version=event.version)
        wrong = view.table("sales.orders").read_arrow(where="amount < 0").num_rows
        if wrong:
            raise ValueError(f"{wrong} orders with a negative amount at version {event.version}")

    def describe(self) -> str:
        return "look for negative amounts"


with tempfile.TemporaryDirectory() as directory:
    place, fresh = Path(directory) / "lake", Path(directory) / "fresh.json"
    lake = hg.Lake.init(
        place,
        hooks=[
            Hook("fresh", Freshness(fresh)),
            Hook(
                "amounts",
                NoNegativeAmounts(),
                when=When(tables=["sales.orders"], kinds=["append", "update"]),
                retry=hg.RetryPolicy(attempts=1),
            ),
        ],
    )
    orders = lake.create_table("sales.orders", "id BIGINT, amount DOUBLE")
    print("failures:", orders.append(pa.table({"id": [1], "amount": [9.5]})).hook_failures)

    told = orders.append(pa.table({"id": [2], "amount": [-1.0]})).hook_failures
    print("failures:", told)
    assert "1 orders with a negative amount at version 3" in told[0]

    # Somebody corrects the rows. The failed hook run stays open until it is retried.
    orders.delete("amount < 0")
    print("open:", [(hook.version, hook.run.name) for hook in lake.open_hooks()])
    print("fresh:", json.loads(fresh.read_text()))
    assert json.loads(fresh.read_text()) == {"sales.orders": 4}
