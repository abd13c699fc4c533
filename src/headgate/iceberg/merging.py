"""Which manifests of a table are due to become one, as a pure function of the versions they hold.

The rule is that of all compaction in Headgate: when a version divisible by divisor^level is reached, what the
window before it holds is put together. A manifest belongs to the window of its lowest version, and it never
holds versions of two windows; so after version N a table has at most (divisor − 1) manifests per level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from headgate.iceberg.data_file import Content, Manifest

TARGET_BYTES = 8 * 1024 * 1024
"""A manifest of this size is not put together with others any more."""


def due_merges(manifests: Sequence[Manifest], version: int, divisor: int) -> tuple[tuple[Manifest, ...], ...]:
    """The groups of manifests that the commit of `version` should put together, each of two or more."""
    groups: dict[tuple[Content, int, int, int], list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        if manifest.length < TARGET_BYTES:
            level, window = complete_window(manifest.min_sequence_number, version, divisor)
            groups[manifest.content, manifest.spec_id, level, window].append(manifest)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def complete_window(lowest: int, version: int, divisor: int) -> tuple[int, int]:
    """The level and number of the largest window that holds `lowest` and ended at or before `version`."""
    assert divisor >= 2
    assert 1 <= lowest <= version, (lowest, version)
    level, size = 0, 1
    while ((lowest - 1) // (size * divisor) + 1) * size * divisor <= version:
        level, size = level + 1, size * divisor
    return level, (lowest - 1) // size
