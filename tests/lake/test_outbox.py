"""A short append goes to storage together with the metadata of its commit: one round trip less."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import headgate as hg
from headgate.commit.outbox import MOST_BYTES, Outbox
from headgate.storage.capabilities import Store
from headgate.storage.counting import counted
from headgate.storage.faulty import Fault, faulty, lose_request
from headgate.storage.intercept import Proceed, intercepted
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Put, Request

ROWS = pa.table({"n": pa.array(range(10), pa.int64())})


def is_data(request: Request) -> bool:
    return isinstance(request, Put) and request.key.endswith(".parquet")


def is_metadata(request: Request) -> bool:
    return isinstance(request, Put) and "/metadata/" in request.key and "/v" not in request.key


def made(store: Store) -> hg.Table:
    lake = hg.Lake.init(store)
    return lake.create_table("t.t", "n BIGINT")


def test_the_data_file_and_the_metadata_are_under_way_at_the_same_time() -> None:
    meeting = threading.Barrier(4)

    def wait_for_all(request: Request, proceed: Proceed) -> Answer:
        if is_waiting and (is_data(request) or is_metadata(request)):
            meeting.wait(timeout=30)  # data file, manifest, manifest list, metadata file
        return proceed(request)

    is_waiting = False
    table = made(intercepted(MemoryStore(), wait_for_all))
    is_waiting = True
    assert table.append(ROWS).version == 2
    assert table.read_arrow().equals(ROWS)


def test_the_record_is_offered_when_all_of_it_is_on_storage() -> None:
    store, tally = counted(MemoryStore())
    table = made(store)
    tally.reset()
    table.append(ROWS)
    decided = next(place for place, request in enumerate(tally.history) if isinstance(request, Create))
    before, after = tally.history[:decided], tally.history[decided:]
    assert [sum(map(is_it, before)) for is_it in (is_data, is_metadata)] == [1, 3]
    assert not any(is_data(request) or is_metadata(request) for request in after)


def test_a_data_file_that_does_not_arrive_is_not_committed() -> None:
    store = MemoryStore()
    bad, _ = faulty(store, Fault(is_data, lose_request, times=1))
    table = made(bad)
    with pytest.raises(hg.StorageError):
        table.append(ROWS)
    opened = hg.Lake.open(store)
    assert opened.version == 1
    assert opened.table("t.t").read_arrow().num_rows == 0
    assert table.append(ROWS).version == 2
    # What the failed one left is told, and is no damage.
    assert {finding.kind for finding in hg.Lake.open(store).fsck(deep=True).findings} == {
        "files-unreferenced"
    }


def test_who_loses_a_race_sends_it_once() -> None:
    store, tally = counted(MemoryStore())
    table = made(store)
    other = hg.Lake.open(store).table("t.t")
    other.append(ROWS)
    tally.reset()
    assert table.append(ROWS).attempts == 2
    assert sum(map(is_data, tally.history)) == 1
    assert table.read_arrow().num_rows == 20


def test_a_transaction_with_more_in_it_reads_what_it_has_appended() -> None:
    table = made(MemoryStore())
    with table._lake.transaction() as tx:
        writer = tx.table("t.t")
        writer.append(ROWS)
        assert writer.read_arrow().equals(ROWS)
        writer.delete("n < 5")
    assert table.read_arrow()["n"].to_pylist() == [5, 6, 7, 8, 9]


def test_it_holds_so_much_and_no_more() -> None:
    outbox = Outbox()
    assert outbox.takes("a", bytes(MOST_BYTES // 2))
    assert not outbox.takes("b", bytes(MOST_BYTES // 2 + 1))
    assert outbox.takes("c", bytes(MOST_BYTES // 2))
    assert not outbox.takes("d", b"x")
    assert set(outbox.objects) == {"a", "c"}


def test_long_rows_are_sent_at_once_and_read_back() -> None:
    table = made(MemoryStore())
    table.set_properties({"write.parquet.delta-encoding": "false", "write.parquet.compression-codec": "none"})
    rows = pa.table({"n": pa.array(range(3 * MOST_BYTES // 16), pa.int64())})
    table.append(rows)
    assert table.read_arrow().equals(rows)
