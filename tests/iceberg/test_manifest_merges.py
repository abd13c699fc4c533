"""Which manifests are put together: bounded in number, never across windows, the same for everybody."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.compaction.windows import largest_complete_window, window_of
from headgate.iceberg.format.data_file import Manifest
from headgate.iceberg.format.snapshot import TARGET_BYTES, due_merges
from headgate.model.identifiers import Window
from tests.iceberg.test_avro import a_manifest


def fresh(version: int) -> Manifest:
    return a_manifest(b"", path=str(version), sequence_number=version, min_sequence_number=version)


def commit(manifests: list[Manifest], version: int, divisor: int) -> list[Manifest]:
    """A table that merges as its commits do: each group becomes one manifest with its lowest version."""
    manifests = [*manifests, fresh(version)]
    for group in due_merges(manifests, version, divisor):
        lowest = min(manifest.min_sequence_number for manifest in group)
        one = replace(fresh(version), path="+".join(m.path for m in group), min_sequence_number=lowest)
        manifests = [manifest for manifest in manifests if manifest not in group] + [one]
    return manifests


@given(divisor=st.integers(2, 10), gaps=st.lists(st.integers(1, 12), min_size=1, max_size=150))
def test_manifests_stay_few_and_lose_nothing(divisor: int, gaps: list[int]) -> None:
    manifests: list[Manifest] = []
    version, committed = 0, []
    for gap in gaps:
        version += gap  # other tables take versions too
        committed.append(version)
        manifests = commit(manifests, version, divisor)
        levels = 1
        while divisor**levels <= version:
            levels += 1
        assert len(manifests) <= (divisor - 1) * levels + 1
        held = sorted(int(path) for manifest in manifests for path in manifest.path.split("+"))
        assert held == committed
        for manifest in manifests:
            _assert_one_window([int(path) for path in manifest.path.split("+")], version, divisor)


def _assert_one_window(versions: list[int], now: int, divisor: int) -> None:
    assert len({largest_complete_window(version, now, divisor) for version in versions}) == 1


@given(lowest=st.integers(1, 10**6), more=st.integers(0, 10**6), divisor=st.integers(2, 10))
def test_the_window_is_the_largest_complete_one(lowest: int, more: int, divisor: int) -> None:
    version = lowest + more
    window = largest_complete_window(lowest, version, divisor)
    size = divisor**window.level
    assert window == Window(window.last - size + 1, window.last, window.level)
    assert window.last % size == 0
    assert window.first <= lowest <= window.last <= version
    assert window_of(lowest, window.level + 1, divisor).last > version


def test_large_manifests_and_other_specs_are_left_alone() -> None:
    large = replace(fresh(1), length=TARGET_BYTES)
    other = replace(fresh(2), spec_id=1)
    assert due_merges([large, other, fresh(3)], 10, 10) == ()
    assert due_merges([large, other, fresh(3), fresh(4)], 10, 10) == ((fresh(3), fresh(4)),)
