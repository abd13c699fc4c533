"""The action `replicate`: a hook that brings a replica up to date after a commit."""

from __future__ import annotations

import os
import threading

from headgate.commit.driver import Driver
from headgate.core.secrets import clean_text
from headgate.errors import HeadgateError, InvalidInputError
from headgate.forks import renew_after_fork
from headgate.host import SYSTEM, Host
from headgate.model.commit_event import CommitEvent
from headgate.opening import opened_store
from headgate.steward.replica.replication import Replicator
from headgate.steward.replica.target import opened_steward
from headgate.storage.capabilities import Store
from headgate.storage.location import Options


class Replicate:
    """Replicates the lake of the commit to `target`, up to its newest version; makes the replica if need be.

    `options` are those of the target's storage. The source is where the event says that the lake is, with
    credentials from the environment, unless `source` and `source_options` say otherwise. Both are kept open
    from one commit to the next.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        options: Options | None = None,
        source: str | os.PathLike[str] | Store | None = None,
        source_options: Options | None = None,
        host: Host = SYSTEM,
    ) -> None:
        self._target = opened_store(target, options)
        self._source = source
        self._source_options = source_options
        self._host = host
        self._replicator: tuple[str, Replicator] | None = None
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._replicator = None

    def run(self, event: CommitEvent) -> None:
        # One at a time: whoever waits finds that its version was copied on the way.
        with self._lock:
            try:
                self._opened(event).run()
            except HeadgateError:
                # What was opened may be what fails; the next try begins anew.
                self._replicator = None
                raise

    def describe(self) -> str:
        return f"replicate to {clean_text(self._target.describe())}"

    def _opened(self, event: CommitEvent) -> Replicator:
        if self._replicator is not None and self._replicator[0] == event.lake_id:
            return self._replicator[1]
        store = opened_store(self._source or event.place, self._source_options)
        source = opened_steward(Driver(store, self._host))
        if source.log.identity.lake_id != event.lake_id:
            raise InvalidInputError(
                f"the commit is of the lake {event.lake_id}, but at {store.describe()} is "
                f"{source.log.identity.lake_id}",
                "check the source of the hook",
            )
        replicator = Replicator(source, Driver(self._target, self._host))
        self._replicator = event.lake_id, replicator
        return replicator
