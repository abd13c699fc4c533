"""When files are worth to be put together, as a table or its lake says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.settings import DELETE_SHARE, MIN_INPUTS, TARGET_SIZE
from headgate.model.footprint import MAX_FILES
from headgate.model.plan import MAX_INPUTS

ENOUGH_SHARE = 0.75
"""A file of this share of the target size counts as one of that size: no encoder meets a size exactly."""
TARGETS_IN_GROUP = 4
"""How many files of the target size a group may hold: an engine reads a group as a whole."""
TARGETS_IN_PLAN = 64
"""How many a plan may hold: what one of several compactors takes at a time, and loses if it fails."""
MAX_PLANNED_FILES = min(MAX_INPUTS, MAX_FILES)
"""How many files a plan has at most: its completion names each in its footprint, so that deletes meet it."""


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The rules of one table.

    A window is compacted if it has `min_inputs` segments that are too small or have deleted rows, or if more
    than `delete_share` of their rows are deleted. New files are about `target_bytes` long.
    """

    min_inputs: int
    delete_share: float
    target_bytes: int

    def __post_init__(self) -> None:
        assert self.min_inputs >= 2, self
        assert 0 < self.delete_share <= 1, self
        assert self.target_bytes > 0, self

    @property
    def enough_bytes(self) -> float:
        """From which size on a file is left as it is."""
        return self.target_bytes * ENOUGH_SHARE

    @property
    def group_bytes(self) -> int:
        return self.target_bytes * TARGETS_IN_GROUP

    @property
    def plan_bytes(self) -> int:
        return self.target_bytes * TARGETS_IN_PLAN


def policy_of(table: Mapping[str, str], lake: Mapping[str, str], divisor: int) -> CompactionPolicy:
    """What the properties of a table, and of its lake, ask for."""
    return CompactionPolicy(
        min_inputs=int(MIN_INPUTS.of(table, lake, usual=divisor)),
        delete_share=DELETE_SHARE.of(table, lake),
        target_bytes=int(TARGET_SIZE.of(table)),
    )
