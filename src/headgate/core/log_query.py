"""Which commits somebody asks the log for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from headgate.core.arguments import texts
from headgate.core.hook_rules import ANY_COMMIT, When
from headgate.model.record import Record


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Commits that fit `which` (tables and kinds, as for hooks), by `user`, not before `since`."""

    which: When = ANY_COMMIT
    user: str | None = None
    since: datetime | None = None

    @classmethod
    def of(cls, table: str | None, kind: str | None, user: str | None, since: datetime | None) -> LogQuery:
        """What a caller asks for; None where anything will do."""
        given = {"table": table, "kind": kind, "user": user}
        tables, kinds, users = (texts(name, () if one is None else (one,)) for name, one in given.items())
        return cls(When(tables, kinds), next(iter(users), None), since)

    def chosen(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those that are asked for, of all from some version downwards."""
        for record in records:
            if self.since is not None and record.committed_at < self.since:
                return  # nor any before it: commit times never go back
            if self.which.holds(record) and self.user in (None, record.command.user):
                yield record
