"""What lies beneath an open lake: its storage, its log and its control entries.

For tests that check what a commit left on storage, or change it behind the back of the lake. A program needs
none of it: what it can rely on is public in `headgate.Lake`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.iceberg.format.loader import TableLoader
from headgate.lake.lake import Lake
from headgate.log.driver import Driver
from headgate.model.identifiers import Version
from headgate.model.identity import LakeIdentity
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.steward.control import ControlEntries
from headgate.storage.capabilities import Store
from headgate.transaction.handle import LakeHandle


@dataclass(frozen=True, slots=True)
class Inspector:
    """Looks beneath `lake`, which may be in use meanwhile. Changes nothing by itself.

    What is read through `store` is on storage now. Requests that go through it are not counted in
    `Lake.metrics`.
    """

    lake: Lake

    @property
    def handle(self) -> LakeHandle:
        """Everything beneath the lake. What the other members return comes from here."""
        return self.lake._handle

    @property
    def driver(self) -> Driver:
        """Sends requests to the storage, and counts them like those of the lake."""
        return self.handle.driver

    @property
    def store(self) -> Store:
        """The storage of the lake, to read from, to damage, or to open another handle on."""
        return self.handle.driver.store

    @property
    def identity(self) -> LakeIdentity:
        """What was decided about the lake when it was made."""
        return self.handle.log.identity

    @property
    def newest(self) -> LakeState:
        """The newest state that the handle knows. Asks nothing of the storage."""
        return self.handle.log.newest

    def refresh(self) -> LakeState:
        """The newest state on storage."""
        return self.handle.refresh()

    def loader(self) -> TableLoader:
        """Reads the metadata of tables, as the handle does."""
        return self.handle.loader()

    @property
    def entries(self) -> ControlEntries:
        """The control entries, the outbox, and up to where nothing is missing."""
        return self.handle.steward.entries

    def record(self, version: int) -> Record:
        """The decided record of a version."""
        return self.handle.log.record(Version(version))

    def digest(self, version: int) -> str:
        """The fingerprint of the record of a version, as the next record names it."""
        return self.handle.log.read_decided(Version(version))[1]

    def data(self, version: int) -> bytes:
        """The record of a version, byte for byte."""
        return self.handle.log.data(Version(version))

    def keys(self, prefix: str = "") -> list[str]:
        """The objects of the lake below `prefix`, in order."""
        return self.handle.driver.keys(prefix)
