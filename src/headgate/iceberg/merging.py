"""Which manifests of a table are due to become one, as a pure function of the versions they hold.

The rule is that of all compaction in Headgate: when a version divisible by divisor^level is reached, what the
window before it holds is put together. A manifest belongs to the window of its lowest version, and it never
holds versions of two windows; so after version N a table has at most (divisor − 1) manifests per level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from headgate.core.windows import largest_complete_window
from headgate.iceberg.data_file import Content, Manifest
from headgate.model.window import Window

TARGET_BYTES = 8 * 1024 * 1024
"""A manifest of this size is not put together with others any more."""


def due_merges(manifests: Sequence[Manifest], version: int, divisor: int) -> tuple[tuple[Manifest, ...], ...]:
    """The groups of manifests that the commit of `version` should put together, each of two or more."""
    groups: dict[tuple[Content, int, Window], list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        if manifest.length < TARGET_BYTES:
            window = largest_complete_window(manifest.min_sequence_number, version, divisor)
            groups[manifest.content, manifest.spec_id, window].append(manifest)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
