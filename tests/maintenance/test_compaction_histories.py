"""Random histories with compactions in between, and others at work while they run, against plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.iceberg.scan.planning import plan
from headgate.maintenance.compaction import Compactor
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from tests.examples import examples
from tests.maintenance.concurrently import Beside

NAME = "a.b"
DIVISOR = 3

steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.integers(0, 40)),
    st.tuples(st.just("update"), st.integers(0, 40)),
    st.tuples(st.just("elsewhere"), st.just(0)),
)


@dataclass
class History:
    """A table and what should be in it, at every version.

    Each append brings a row that stays, so that no file is emptied and taken away: then the table at a
    boundary follows from the files that it has in the end.
    """

    partition_by: tuple[str, ...]
    lake: hg.Lake = field(init=False)
    rows: dict[int, int] = field(default_factory=dict)
    next_id: int = 0
    then: dict[int, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lake = hg.Lake.init(MemoryStore("histories"), strategy="conditional", divisor=DIVISOR)
        self.lake.create_table(NAME, "id BIGINT, n BIGINT, p STRING", partition_by=self.partition_by)

    def do(self, step: tuple[str, int]) -> None:
        verb, number = step
        table = hg.Lake.open(Inspector(self.lake).store).table(NAME)
        if verb == "append":
            ids = [self.next_id + offset for offset in range(number + 1)]
            self.next_id += 10  # the first of each ten stays
            table.append(pa.table({"id": ids, "n": [0] * len(ids), "p": ["x"] * len(ids)}))
            self.rows |= dict.fromkeys(ids, 0)
        elif verb == "elsewhere":
            self.lake.set_properties({"n": str(self.lake.version)})
        elif number % 10:
            self._change(table, verb, number)
        self.then[self.lake.version] = dict(self.rows)

    def do_all(self, steps: list[tuple[str, int]]) -> None:
        """All of the steps, the last one first; each is done once, however often this is called."""
        while steps:
            self.do(steps.pop())

    def _change(self, table: hg.Table, verb: str, number: int) -> None:
        if verb == "delete":
            table.delete(f"id = {number}")
            self.rows.pop(number, None)
        elif number in self.rows:
            table.update({"n": "n + 1"}, where=f"id = {number}")
            self.rows[number] += 1

    def require(self) -> None:
        table = hg.Lake.open(Inspector(self.lake).store).table(NAME)
        assert ids(table.read_arrow()) == sorted(self.rows.items())
        for version, rows in self.then.items():
            assert ids(table.read_arrow(version=version)) == sorted(rows.items())
        view = table._view()
        files = plan(view.loader, view.metadata, None).files
        for version, rows in self.then.items():
            if any(planned.covers.straddles(version) for planned in files):
                continue
            old = [planned.as_of(version) for planned in files if planned.covers.last <= version]
            found = read_rows(Inspector(self.lake).driver, view.loader, old, view.metadata.schema)
            assert ids(found) == sorted(rows.items()), version


def ids(rows: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(rows.column("id").to_pylist(), rows.column("n").to_pylist(), strict=True))


@given(
    partition_by=st.sampled_from([(), ("p",), ("bucket(2, id)",)]),
    rounds=st.lists(
        st.tuples(st.lists(steps, max_size=9), st.lists(steps, max_size=3)), min_size=1, max_size=4
    ),
)
@settings(deadline=None, max_examples=examples(25), suppress_health_check=list(HealthCheck))
def test_no_row_changes_and_boundaries_stay_exact(
    partition_by: tuple[str, ...], rounds: list[tuple[list[tuple[str, int]], list[tuple[str, int]]]]
) -> None:
    history = History(partition_by)
    for before, beside in rounds:
        for step in before:
            history.do(step)
        lake = hg.Lake.open(Inspector(history.lake).store)
        report = Compactor(
            Inspector(lake).handle, rewriter=Beside(partial(history.do_all, list(beside)))
        ).run()
        # Nothing in such a history takes files away, so everything can be carried.
        assert not report.cancelled
        history.then[history.lake.version] = dict(history.rows)
    history.require()
    assert history.lake.fsck(deep=True).ok
