"""Publishing tables for engines that open them by path: `v<N>.metadata.json` and `version-hint.text`.

Done after the decision, so nothing depends on it; whoever commits next to the table does it again. Engines
that are given the exact metadata file need neither.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.model.identifiers import Version, unpadded
from headgate.model.table import TableRef

MAX_ROUNDS = 8
"""How often we look whether somebody else's newer version needs to be announced in place of ours."""


def publish(
    driver: Driver,
    table: TableRef,
    newest: Callable[[], TableRef | None],
    metadata: Callable[[TableRef], bytes],
) -> None:
    """Announces `table`, or what it has become meanwhile: the announcement ends at the newest version.

    Two writers may announce at the same time and the older one may write last; each therefore looks again
    after writing, and announces the newer one in its place.
    """
    for _ in range(MAX_ROUNDS):
        version = version_of(table)
        driver.put(f"{table.location}/metadata/v{version}.metadata.json", metadata(table))
        driver.put(f"{table.location}/metadata/version-hint.text", str(version).encode())
        now = newest()
        if now is None or now == table:
            return
        table = now


def version_of(table: TableRef) -> Version:
    """The version whose commit wrote the metadata of a table: its name begins with it."""
    number = unpadded(table.metadata.rpartition("/")[2][:20])
    if number is None:
        raise CorruptLakeError(f"{table.metadata} is not a name that Headgate gives to metadata")
    return Version(number)
