"""The names of a lake: its tables, views and mounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate.core.input.arguments import found_name
from headgate.errors import NotFoundError
from headgate.model.named_object import NamedObject
from headgate.model.state import LakeState
from headgate.model.table import TableRef
from headgate.transaction.handle import LakeHandle


@dataclass(frozen=True, slots=True)
class Names:
    """Looks up the tables, views and mounts of a lake by name."""

    lake: LakeHandle

    def find(self, name: str, version: int | None = None) -> TableRef | NamedObject:
        """The table, view or mount with a name, at the newest version or at `version`."""
        if version is None:
            return found_name(self.lake.refresh(), name)
        try:
            return found_name(self.lake.state_at(version), name)
        except NotFoundError as error:
            later = self._version_with(name, version)
            if later is None:
                raise
            raise NotFoundError(error.problem, f"read it at version {later}, where it exists") from None

    def _version_with(self, name: str, after: int) -> int | None:
        """A version above `after` that has `name`, if the newest one does.

        It is the first such version if the name was created only once.
        """
        newest = self.lake.refresh()
        if name not in (*newest.tables, *newest.objects) or after >= newest.version.number:
            return None
        without, having = after, newest.version.number
        while having - without > 1:
            middle = (without + having) // 2
            state = self.lake.state_at(middle)
            if name in state.tables or name in state.objects:
                having = middle
            else:
                without = middle
        return having


def objects_of(state: LakeState) -> Mapping[str, NamedObject]:
    """The views and mounts of a state, sorted by name."""
    return MappingProxyType(dict(sorted(state.objects.items())))
