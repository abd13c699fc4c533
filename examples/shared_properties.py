"""Two writers on one lake: transactions, batches that are committed only once, conflicts, and the past.

Run it with `.venv/bin/python examples/shared_properties.py`. It works in a temporary directory.
"""

import tempfile
from pathlib import Path

import headgate as hg

with tempfile.TemporaryDirectory() as directory:
    place = Path(directory) / "lake"
    hg.Lake.init(place)

    # The two handles stand for two processes on two machines.
    loader, auditor = hg.Lake.open(place), hg.Lake.open(place)

    # A transaction becomes one version, or none.
    with loader.transaction(["load", "--day", "2026-11-15"], app=("loader", 1)) as tx:
        tx.set_properties({"last.day": "2026-11-15", "rows": "1200"})
    print("loaded as version", tx.result.version)

    # The other writer did not know version 1. It still commits: as the next version.
    print("audited as version", auditor.set_properties({"audited.by": "ann"}).version)

    # The loader crashed before it could record its success, so it runs its batch again: nothing is
    # duplicated.
    with loader.transaction(["load", "--day", "2026-11-15"], app=("loader", 1)) as again:
        again.set_properties({"last.day": "2026-11-15", "rows": "1200"})
    print("the batch was committed before:", again.result.already_committed)

    # Both change the same property: the second commit fails, and the error names the other one and the next
    # step.
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
