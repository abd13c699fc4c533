"""The action `compact`: a hook that compacts what is due after a commit."""

from __future__ import annotations

import os
import threading

from headgate.core.arguments import texts
from headgate.errors import HeadgateError, InvalidInputError
from headgate.forks import renew_after_fork
from headgate.lake import Lake
from headgate.model.commit_event import CommitEvent
from headgate.storage.capabilities import Store
from headgate.storage.location import Options


class Compact:
    """Compacts what is due in the lake of the commit: in all of its tables, or in `tables`.

    The lake is where the event says, with credentials from the environment, unless `place` and `options` say
    otherwise. It is kept open from one commit to the next, so that a commit which completes no window costs a
    look at the log. What the compaction commits asks for no hooks: not for this one, and not for others.
    """

    def __init__(
        self,
        tables: tuple[str, ...] = (),
        *,
        place: str | os.PathLike[str] | Store | None = None,
        options: Options | None = None,
    ) -> None:
        self._tables = texts("tables", tables)
        self._place = place
        self._options = options
        self._lake: Lake | None = None
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._lake = None

    def run(self, event: CommitEvent) -> None:
        # One at a time: whoever waits finds that what was due is done.
        with self._lock:
            try:
                lake = self._opened(event)
                for table in self._tables or (None,):
                    lake.compact(table=table)
            except HeadgateError:
                # What was opened may be what fails; the next try begins anew.
                self._lake = None
                raise

    def describe(self) -> str:
        return f"compact {', '.join(self._tables) or 'all tables'}"

    def _opened(self, event: CommitEvent) -> Lake:
        if self._lake is None or self._lake.id != event.lake_id:
            lake = Lake.open(self._place or event.place, options=self._options)
            if lake.id != event.lake_id:
                raise InvalidInputError(
                    f"the commit is of the lake {event.lake_id}, but at {lake.place} is {lake.id}",
                    "check the place of the hook",
                )
            self._lake = lake
        return self._lake
