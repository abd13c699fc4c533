"""The table services of a lake, as methods of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, cast

from headgate.model.compaction import CompactionProgress, CompactionReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.core.compaction.outlook import TableOutlook
    from headgate.lake import Lake
    from headgate.services.looks import Looks


class LakeServices:
    """The part of a lake that looks after the files of its tables. No row is changed by any of it."""

    @cached_property
    def _looks(self) -> Looks:
        from headgate.services.looks import Looks

        return Looks()

    def compact(
        self,
        spark: SparkSession | None = None,
        *,
        table: str | None = None,
        progress: Callable[[CompactionProgress], None] | None = None,
        patience: timedelta | None = None,
    ) -> CompactionReport:
        """Puts small files together, and applies row deletes, where that is due; in all tables or in one.

        What is due follows from the log and the live files: see docs/compaction.md. With Spark if a session
        is given or active, else through Arrow in this process. Writers may go on; rows that they change
        meanwhile are carried over. Any number of compactions may run: they share the work, and take over
        what others left when they died, once that is older than `patience` (2 minutes). `progress` is told of
        each group of files that was written. An interrupted one changes nothing but what it has completed.
        """
        from headgate.services.compaction import TAKE_OVER_AFTER, Compactor  # loads pyiceberg

        compactor = Compactor(
            cast("Lake", self),
            self._looks,
            spark,
            progress or (lambda _: None),
            TAKE_OVER_AFTER if patience is None else patience,
        )
        return compactor.run(table)

    def compaction_outlook(self, table: str | None = None) -> tuple[TableOutlook, ...]:
        """The tables as compaction sees them: segments by level of each path, and what is due. No change."""
        from headgate.services.compaction import Compactor

        return Compactor(cast("Lake", self)).outlook(table)
