"""Two writers on one lake: transactions, batches that are never doubled, conflicts, and looking back.

Run it with `.venv/bin/python examples/shared_properties.py`; it works in a temporary directory.
"""

import tempfile
from pathlib import Path

import headgate as hg

with tempfile.TemporaryDirectory() as directory:
    place = Path(directory) / "lake"
    hg.Lake.init(place)

    # Two handles stand for two processes on two machines.
    loader, auditor = hg.Lake.open(place), hg.Lake.open(place)

    # A transaction becomes one version, or nothing.
    with loader.transaction(["load", "--day", "2026-11-15"], app=("loader", 1)) as tx:
        tx.set_properties({"last.day": "2026-11-15", "rows": "1200"})
    print("loaded as version", tx.result.version)

    # The other writer did not know of version 1; it takes the next one.
    print("audited as version", auditor.set_properties({"audited.by": "ann"}).version)

    # The loader crashed before it could note its success, so it runs its batch again: nothing is doubled.
    with loader.transaction(["load", "--day", "2026-11-15"], app=("loader", 1)) as again:
        again.set_properties({"last.day": "2026-11-15", "rows": "1200"})
    print("the batch was committed before:", again.result.already_committed)

    # Both change the same property: the second is told by whom, and what to do.
    first, second = loader.transaction(), auditor.transaction()
    first.set_properties({"owner": "loader"})
    second.set_properties({"owner": "auditor"})
    first.commit()
    try:
        second.commit()
    except hg.ConflictError as conflict:
        print(f"conflict: {conflict}")

    # Every version stays readable.
    print("at version 1:", dict(loader.at(1).properties))
    print("now:", dict(loader.properties))
    for entry in loader.log():
        print(f"  version {entry.version} by {entry.user}: {dict(entry.lake_properties)}")
