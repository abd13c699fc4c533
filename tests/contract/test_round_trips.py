"""How many requests of an append wait for one another until it is decided, on a storage that is far away."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headgate as hg
from headgate.system.host import SystemHost
from tests.servers.s3 import Behaviour, S3Server, round_trips

pytestmark = pytest.mark.slow

ROUNDS = {"conditional": 3, "filetracker": 7}
"""The data file, the metadata objects at once, and the decision."""


@pytest.mark.parametrize("strategy", ROUNDS)
def test_an_append_by_a_warm_handle(s3: S3Server, strategy: str) -> None:
    lake = hg.Lake.init(s3.url(f"trips-{strategy}"), options=dict(s3.options), strategy=strategy)
    table = lake.create_table("a.b", "id BIGINT")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table.append(rows)
    s3.reset_counts()
    # Long enough that requests sent at once are seen at once, also on a busy machine.
    with s3.behaving(Behaviour(latency_seconds=0.3)):
        table.append(rows)
    trace = s3.trace()
    decided = max(one.ended for one in trace if one.kind == "PUT" and "/control/log/" in one.path)
    assert round_trips(one for one in trace if one.ended <= decided) == ROUNDS[strategy]
    # Publishing, its hint, a look at the head, and the control entry follow; nothing else does.
    assert round_trips(trace) == ROUNDS[strategy] + 4


def test_an_append_that_lost_to_another_process(s3: S3Server) -> None:
    url, options = s3.url("trips-of-a-loser"), dict(s3.options)
    table = hg.Lake.init(url, options=options, strategy="conditional").create_table("a.b", "id BIGINT")
    # A host of its own shares no memory, like another process.
    other = hg.Lake.open(url, options=options, host=SystemHost()).table("a.b")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table.append(rows)
    other.append(rows)
    s3.reset_counts()
    with s3.behaving(Behaviour(latency_seconds=0.3)):
        table.append(rows)
    trace = s3.trace()
    decided = max(one.ended for one in trace if one.kind == "PUT" and "/control/log/" in one.path)
    # The winner's record after the refusal; its metadata and its manifest list at once; then the same again.
    assert round_trips(one for one in trace if one.ended <= decided) == ROUNDS["conditional"] + 4


def test_follow_ups_in_the_background_are_not_waited_for(s3: S3Server) -> None:
    lake = hg.Lake.init(s3.url("trips-behind"), options=dict(s3.options), follow_up="background")
    table = lake.create_table("a.b", "id BIGINT")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table.append(rows).wait()
    s3.reset_counts()
    with s3.behaving(Behaviour(latency_seconds=0.3)):
        result = table.append(rows)
        assert round_trips(s3.trace()) == ROUNDS["conditional"]
        result.wait()
    assert round_trips(s3.trace()) == ROUNDS["conditional"] + 4
