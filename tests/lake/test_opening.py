"""Opening a lake whose objects were edited, lost or set back: what is refused, what only costs reading."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import headgate as hg
from headgate.log.layout import IDENTITY, LAST_CHECKPOINT, PLAIN, TRACKER, checkpoint_key
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import Json, digest, encode
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get, Put, Request
from headgate.testing.faulty import Fault, faulty, lose_request
from headgate.testing.intercept import Tally, counted

DIVISOR = 10


def a_lake(commits: int, strategy: str = "conditional") -> MemoryStore:
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy=strategy)
    for number in range(1, commits + 1):
        lake.set_properties({"n": str(number)})
    return store


def edit(store: MemoryStore, key: str, **changes: Json) -> None:
    fields = json.loads(store.get(key) or b"")
    store.put(key, encode({**fields, **changes}))


def forge(store: MemoryStore, version: int, **changes: Json) -> None:
    """Changes a checkpoint, and makes its checksum fit."""
    key = checkpoint_key(Version(version))
    fields = {**json.loads(store.get(key) or b""), **changes}
    del fields["checksum"]
    store.put(key, encode({**fields, "checksum": digest(encode(fields))}))


def cost(act: Callable[[hg.Lake], object], store: MemoryStore) -> Tally:
    watched, tally = counted(store)
    act(hg.Lake.open(watched))
    return tally


# --- the identity ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["conditional", "filetracker"])
@pytest.mark.parametrize("anew", ["conditional", "filetracker", None])
def test_init_does_not_build_upon_the_log_of_a_lost_lake(strategy: str, anew: str | None) -> None:
    store = a_lake(12, strategy)
    for key in (IDENTITY, TRACKER.index_key(GENESIS), *store.list_page(TRACKER.attempts(GENESIS)).keys):
        store.delete(key)
    before = store.list_page("").keys
    with pytest.raises(hg.CorruptLakeError, match="there is no lake, but there are"):
        hg.Lake.init(store, strategy=anew)
    assert store.list_page("").keys == before


def test_init_goes_on_where_another_one_died() -> None:
    store = MemoryStore()
    attempts = TRACKER.attempts(GENESIS)

    def proposing(request: Request) -> bool:
        return isinstance(request, Put) and request.key.startswith(attempts) and "PRE" not in request.key

    died, _ = faulty(store, Fault(proposing, lose_request))
    with pytest.raises(hg.CommitUnknownError):
        hg.Lake.init(died)
    assert store.list_page(attempts).keys
    assert hg.Lake.init(store).version == 0


@pytest.mark.parametrize("strategy", ["conditional", "filetracker"])
@pytest.mark.parametrize("commits", [0, 3, 10, 13])
@pytest.mark.parametrize(
    "changes",
    [{"divisor": 3}, {"lake_id": "0" * 32}, {"ordered_listing": False}],
    ids=lambda c: next(iter(c)),
)
def test_an_edited_identity_is_refused(strategy: str, commits: int, changes: dict[str, Json]) -> None:
    store = a_lake(commits, strategy)
    edit(store, IDENTITY, **changes)
    with pytest.raises(
        hg.CorruptLakeError, match=r"headgate\.json differs from what was committed as version 0"
    ):
        hg.Lake.open(store)


@pytest.mark.parametrize("divisor", [-1, 0, 1, 1001, 10**7, 10**30])
def test_a_divisor_that_init_would_refuse_is_refused(divisor: int) -> None:
    store = a_lake(3)
    edit(store, IDENTITY, divisor=divisor)
    with pytest.raises(hg.CorruptLakeError, match="divisor"):
        hg.Lake.open(store)


def test_an_emptied_identity_is_refused() -> None:
    store = a_lake(3)
    store.put(IDENTITY, b"")
    with pytest.raises(hg.CorruptLakeError, match=r"headgate\.json is not JSON"):
        hg.Lake.open(store)


@pytest.mark.parametrize("commits", [0, 3, 25])
def test_a_lake_without_its_control_directory_is_not_an_empty_one(commits: int) -> None:
    store = a_lake(commits)
    for key in store.list_page("control/").keys:
        store.delete(key)
    with pytest.raises(hg.CorruptLakeError, match=r"the record of version 0 \(control/log/.*\) is gone"):
        hg.Lake.open(store)
    assert store.list_page("control/").keys == ()


def test_a_lake_without_its_log_is_not_at_its_checkpoint() -> None:
    store = a_lake(25)
    for key in store.list_page("control/log/").keys:
        store.delete(key)
    with pytest.raises(hg.CorruptLakeError, match="the end of the log is lost"):
        hg.Lake.open(store)


def test_a_handle_does_not_build_upon_a_checkpoint_that_it_refused() -> None:
    store = a_lake(0)
    late, writer = hg.Lake.open(store), hg.Lake.open(store)
    for number in range(25):
        writer.set_properties({"n": str(number)})
    for version in range(20, 26):
        store.delete(PLAIN.record_key(Version(version)))
    with pytest.raises(hg.CorruptLakeError, match="the end of the log is lost"):
        late.transaction()
    # It was told, so it looks again before it decides anything.
    with pytest.raises(hg.CorruptLakeError, match="the end of the log is lost"):
        late.set_properties({"a": "b"})
    assert store.get(PLAIN.record_key(Version(20))) is None


def test_a_lost_copy_of_the_identity_is_no_harm() -> None:
    store = a_lake(3)
    store.delete(IDENTITY)
    assert hg.Lake.open(store).version == 3


@pytest.mark.parametrize(
    ("commits", "changes"), [(10, {"digest": "sha256:0"}), (13, {"next_strategy": "filetracker"})]
)
def test_what_a_checkpoint_says_is_compared_with_the_record(commits: int, changes: dict[str, Json]) -> None:
    store = a_lake(commits)
    forge(store, 10, **changes)
    with pytest.raises(hg.CorruptLakeError, match=r"version 10 .*control/checkpoint/0*10.json"):
        hg.Lake.open(store)


# --- checkpoints -------------------------------------------------------------------------------------------


def surrogate(store: MemoryStore, key: str) -> bytes:
    return (store.get(key) or b"").replace(b'"n":"20"', b'"n":"\\ud800"')


def deep(store: MemoryStore, key: str) -> bytes:
    return b'{"x":' + b"[" * 900 + b"]" * 900 + b"," + (store.get(key) or b"")[1:]


def later_format(store: MemoryStore, key: str) -> bytes:
    return (store.get(key) or b"").replace(b'"format":1', b'"format":2')


def huge_number(store: MemoryStore, key: str) -> bytes:
    fields = json.loads(store.get(key) or b"")
    fields["apps"] = {"a": {"batch": 1, "version": 10**25}}
    del fields["checksum"]
    return encode({**fields, "checksum": digest(encode(fields))})


def of_another_lake(store: MemoryStore, key: str) -> bytes:
    del store
    return a_lake(20).get(key) or b""


@pytest.mark.parametrize("damaged", [surrogate, deep, later_format, huge_number, of_another_lake])
def test_a_checkpoint_that_cannot_be_used_is_passed_over(
    damaged: Callable[[MemoryStore, str], bytes],
) -> None:
    store = a_lake(25)
    key = checkpoint_key(Version(20))
    store.put(key, damaged(store, key))
    assert hg.Lake.open(store).properties["n"] == "25"
    store.delete(checkpoint_key(Version(10)))
    assert hg.Lake.open(store).properties["n"] == "25"


def test_a_damaged_checkpoint_is_written_again_by_the_next_writer() -> None:
    store = a_lake(25)
    key = checkpoint_key(Version(20))
    good = store.get(key)
    for damage in (b"oops", None):
        store.delete(key)
        if damage is not None:
            store.put(key, damage)
        lake = hg.Lake.open(store)
        lake.set_properties({"n": "x"})
        assert store.get(key) == good
        watched, tally = counted(store)
        again = hg.Lake.open(watched)
        tally.reset()
        again.set_properties({"n": "y"})
        assert tally.counts() == {"create": 2}  # once: a record and its control entry


def test_a_checkpoint_of_a_later_release_stays() -> None:
    store = a_lake(25)
    key = checkpoint_key(Version(20))
    store.put(key, later_format(store, key))
    hg.Lake.open(store).set_properties({"n": "26"})
    assert b'"format":2' in (store.get(key) or b"")


def test_a_record_of_a_later_format_is_still_refused() -> None:
    store = a_lake(3)
    edit(store, PLAIN.record_key(Version(3)), format=2, needs_release="9.9")
    with pytest.raises(hg.UnsupportedError, match=r"upgrade to headgate 9.9"):
        hg.Lake.open(store)


def test_a_lake_of_a_strategy_of_a_later_release_says_that_it_cannot_be_opened() -> None:
    store = a_lake(3)
    edit(store, PLAIN.record_key(Version(3)), next_strategy="psychic")
    with pytest.raises(hg.UnsupportedError) as caught:
        hg.Lake.open(store)
    assert "can neither open this lake" in caught.value.next_step


# --- costs -------------------------------------------------------------------------------------------------


def records_read(tally: Tally) -> int:
    keys = [request.key for request in tally.history if isinstance(request, Get)]
    return sum(PLAIN.indexed_version(key) is not None for key in keys)


@pytest.mark.parametrize("last", [b'{"version":10}', b'{"version":300}', b'{"version":9999}', b"oops", None])
def test_advice_that_went_back_or_is_wrong_costs_a_listing(last: bytes | None) -> None:
    store = a_lake(417)
    store.delete(LAST_CHECKPOINT)
    if last is not None:
        store.put(LAST_CHECKPOINT, last)
    opened: list[int] = []
    tally = cost(lambda lake: opened.append(lake.version), store)
    assert opened == [417]
    assert tally.counts()["list"] == 1
    assert records_read(tally) <= 2 * DIVISOR + 1


def test_a_handle_that_is_far_behind_reads_a_checkpoint_and_not_every_record() -> None:
    store = a_lake(3)
    watched, tally = counted(store)
    behind = hg.Lake.open(watched)
    ahead = hg.Lake.open(store)
    for number in range(400):
        ahead.set_properties({"n": str(number)})
    tally.reset()
    assert behind.properties["n"] == "399"
    assert set(tally.counts()) == {"get"}
    assert tally.counts()["get"] <= 2 * DIVISOR + 3
    # Also when the advice is behind as well.
    for number in range(400):
        ahead.set_properties({"n": str(number)})
    store.put(LAST_CHECKPOINT, b'{"version":410}')
    tally.reset()
    assert behind.version == 803
    assert tally.counts()["list"] == 1
    assert tally.counts()["get"] <= 3 * DIVISOR + 4
    assert behind.set_properties({"n": "400"}).version == 804


def test_a_handle_that_is_a_little_behind_reads_the_records() -> None:
    store = a_lake(13)
    watched, tally = counted(store)
    behind = hg.Lake.open(watched)
    ahead = hg.Lake.open(store)
    for number in range(DIVISOR - 1):
        ahead.set_properties({"n": str(number)})
    tally.reset()
    assert behind.version == 22
    assert tally.counts() == {"get": DIVISOR}


def test_the_record_of_version_zero_is_read_only_if_there_is_nothing_else_to_check() -> None:
    zero = Get(TRACKER.record_key(GENESIS))
    for commits, expected in ((0, 1), (1, 0), (9, 0), (10, 0), (14, 0)):
        store = a_lake(commits)
        tally = cost(lambda lake: None, store)
        assert tally.history.count(zero) == expected, commits
        assert tally.counts()["get"] <= 1 + DIVISOR + 2


@pytest.mark.parametrize("missing", [1, 15, 16, 17, 48, 50, 59])
def test_a_hole_in_a_long_window_is_seen_wherever_it_is(missing: int) -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store, divisor=100)
    for number in range(60):
        lake.set_properties({"n": str(number)})
    store.delete(PLAIN.record_key(Version(missing)))
    with pytest.raises(hg.CorruptLakeError, match=rf"the record of version {missing} .* is gone, although"):
        hg.Lake.open(store)
