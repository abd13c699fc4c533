"""The action `replicate`: a hook that brings a replica up to date after a commit."""

from __future__ import annotations

import os
import threading

from headgate.core.input.secrets import clean_text
from headgate.errors import HeadgateError, InvalidInputError
from headgate.log.driver import Driver
from headgate.model.commit_event import CommitEvent
from headgate.spark.store.open import opened_store
from headgate.steward.replica.replication import Replicator
from headgate.steward.replica.target import open_steward
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.system.host import SYSTEM, Host, renew_after_fork


class Replicate:
    """Replicates the lake of the commit to `target`, up to its newest version. Creates the replica if needed.

    `options` are the options of the storage of the target. The source is opened at the location in the event,
    with credentials from the environment, unless you give `source` and `source_options`. Both lakes stay open
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
        # One at a time: a thread that waited finds its version already copied.
        with self._lock:
            try:
                self._open_replicator(event).run()
            except HeadgateError:
                # The open lake itself may be what fails; the next try opens it again.
                self._replicator = None
                raise

    def describe(self) -> str:
        return f"replicate to {clean_text(self._target.describe())}"

    def _open_replicator(self, event: CommitEvent) -> Replicator:
        if self._replicator is not None and self._replicator[0] == event.lake_id:
            return self._replicator[1]
        store = opened_store(self._source or event.place, self._source_options)
        source = open_steward(Driver(store, self._host))
        if source.log.identity.lake_id != event.lake_id:
            raise InvalidInputError(
                f"the commit belongs to the lake {event.lake_id}, but the lake at {store.describe()} is "
                f"{source.log.identity.lake_id}",
                "check the source of the hook",
            )
        replicator = Replicator(source, Driver(self._target, self._host))
        self._replicator = event.lake_id, replicator
        return replicator
