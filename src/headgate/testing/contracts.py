"""What a store and a commit strategy must guarantee, as suites that any implementation can run.

Each suite is a class of `test_…` methods. To run one with pytest, subclass it under a name that pytest
collects, and provide the arguments as fixtures:

```python
class TestMyStore(StoreContract, PutIfAbsentContract):
    @pytest.fixture
    def store(self) -> Store:
        return MyStore(...)  # an empty one for each test
```

Nothing here needs pytest: you can call the methods with the arguments that they name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import ClassVar, Protocol, TypeAlias, TypeVar
from uuid import uuid4

from headgate.errors import InvalidInputError, StorageError
from headgate.log.machine import Committed, Lost, Outcome, Unknown
from headgate.log.strategy import CommitStrategy
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.storage.capabilities import (
    ListSizes,
    ListTimes,
    PutIfAbsent,
    PutInParts,
    ReadRanges,
    ReadTail,
    RenameNoReplace,
    Store,
    Tail,
)
from headgate.storage.requests import Answer, all_sizes, all_times
from headgate.system.host import SYSTEM
from headgate.testing.faulty import Action, DuplicatedLate, Fault, faulty, lose_answer, lose_request
from headgate.testing.intercept import counted

T = TypeVar("T")

MAX_PAGES = 10_000
RACE_SECONDS = 120.0
"""How long a race may take before it counts as a deadlock."""

ODD_KEYS = (
    "with space",
    " leading and trailing ",
    "percent%25 and % alone",
    "a+b=c&d",
    "question?mark#hash;semicolon",
    "quote'double\"back`tick",
    "~tilde!$(paren)[bracket]{brace}",
    "at@colon:comma,pipe|star*",
    ".hidden",
    "...",
    "dot.",
    "-dash",
    "ümlaut/größe",
    "日本語/キー",
    "emoji-😀",
    "UPPER/lower",
    "x" * 255,
    "ü" * 127,
    "/".join(["deep"] * 40),
)
"""Keys that are allowed, and that a careless implementation handles wrongly."""

KEYS_OUTSIDE = (
    "",
    "/",
    "/absolute",
    "..",
    "../outside",
    "a/../../outside",
    "a/..",
    "a/./b",
    "a//b",
    "a/",
    "a\\..\\b",
    "null\0byte",
    "line\nfeed",
    "half\ud800pair",
)
"""Keys that must be rejected before a request is sent."""


class CreatingStore(Store, PutIfAbsent, Protocol):
    """A store with `PutIfAbsent`."""


class RenamingStore(Store, RenameNoReplace, Protocol):
    """A store with `RenameNoReplace`."""


def all_keys(store: Store, prefix: str = "") -> list[str]:
    """Every key below `prefix`, page by page. Fails if the pages are out of order or do not end."""
    keys: list[str] = []
    for _ in range(MAX_PAGES):
        page = store.list_page(prefix, keys[-1] if keys else None)
        assert page.keys or page.complete, "a page without keys must be the last one"
        keys.extend(page.keys)
        assert keys == sorted(set(keys)), f"keys are out of order, or listed twice: {keys}"
        if page.complete:
            return keys
    raise AssertionError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")


def race(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Runs all tasks in parallel, each in its own thread, and returns their results in order.

    If some raised, the error of the first of those is raised after all have ended.
    """
    start = threading.Barrier(len(tasks))
    results: list[Future[T]] = [Future() for _ in tasks]

    def run(task: Callable[[], T], result: Future[T]) -> None:
        try:
            start.wait(RACE_SECONDS)
            result.set_result(task())
        except BaseException as error:  # noqa: BLE001 — raised where the result is asked for
            result.set_exception(error)

    # Not a pool: it would wait forever for a task that hangs.
    for pair in zip(tasks, results, strict=True):
        threading.Thread(target=run, args=pair, daemon=True).start()
    running = wait(results, RACE_SECONDS).not_done
    assert not running, f"{len(running)} of {len(tasks)} racers did not end within {RACE_SECONDS:.0f} seconds"
    return [result.result() for result in results]


def assert_refused(call: Callable[[], object]) -> None:
    """Asserts that `call` raises an `InvalidInputError`."""
    try:
        result = call()
    except InvalidInputError:
        return
    raise AssertionError(f"the call should have been rejected, but returned {result!r}")


def _all_keys_after(store: Store, prefix: str, after: str) -> list[str]:
    page = store.list_page(prefix, after)
    if page.complete:
        return list(page.keys)
    return [*page.keys, *_all_keys_after(store, prefix, page.keys[-1])]


def _put_all(store: Store, keys: Iterable[str]) -> None:
    for key in keys:
        store.put(key, key.encode())


class StoreContract:
    """For every store. Each test gets an empty `store`.

    If a storage cannot store some of `odd_keys`, list them in `refused_keys`; the store must reject them.
    """

    odd_keys: ClassVar[tuple[str, ...]] = ODD_KEYS
    refused_keys: ClassVar[tuple[str, ...]] = KEYS_OUTSIDE

    def test_what_is_not_there_is_none(self, store: Store) -> None:
        assert store.get("missing") is None
        assert store.get("missing/below") is None

    def test_an_object_is_read_as_it_was_written(self, store: Store) -> None:
        data = bytes(range(256)) * 7
        store.put("some/key", data)
        assert store.get("some/key") == data

    def test_an_empty_object_is_not_a_missing_one(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.get("empty") == b""
        assert all_keys(store) == ["empty"]

    def test_a_large_object_is_whole(self, store: Store) -> None:
        data = bytes(range(251)) * (5_000_000 // 251)
        store.put("large", data)
        assert store.get("large") == data

    def test_put_replaces(self, store: Store) -> None:
        store.put("key", b"a longer text at first")
        store.put("key", b"short")
        store.put("key", b"short")
        assert store.get("key") == b"short"
        assert all_keys(store) == ["key"]

    def test_delete_can_be_repeated(self, store: Store) -> None:
        store.put("a/1", b"1")
        store.put("a/2", b"2")
        for _ in range(3):
            store.delete("a/1")
        assert store.get("a/1") is None
        assert store.get("a/2") == b"2"
        assert all_keys(store) == ["a/2"]

    def test_delete_of_what_never_was_is_no_error(self, store: Store) -> None:
        store.delete("missing")
        store.delete("missing/below")

    def test_a_key_can_be_used_again_after_delete(self, store: Store) -> None:
        for data in (b"1", b"2", b"3"):
            store.put("a/b/c", data)
            assert store.get("a/b/c") == data
            store.delete("a/b/c")
            assert all_keys(store) == []

    def test_what_lies_below_a_key_is_not_the_key(self, store: Store) -> None:
        store.put("a/b/c", b"")
        for key in ("a", "a/b"):
            assert store.get(key) is None
            store.delete(key)
        assert all_keys(store) == ["a/b/c"]

    def test_what_lies_above_a_key_is_not_the_key(self, store: Store) -> None:
        store.put("a", b"")
        assert store.get("a/b") is None
        store.delete("a/b")
        assert all_keys(store, "a/") == []
        assert all_keys(store) == ["a"]

    def test_an_empty_listing_is_complete(self, store: Store) -> None:
        for prefix in ("", "missing/", "missing/below/"):
            page = store.list_page(prefix)
            assert (page.keys, page.complete) == ((), True)

    def test_listings_are_in_key_order_at_every_depth(self, store: Store) -> None:
        # Code points decide, even across the separator: '-' and '.' sort before '/', '0' after it.
        keys = ["B/z", "a-b/x", "a.txt", "a/b.txt", "a/b/1", "a/b/10", "a/b/2", "a0", "b", "ä/1", "日", "😀"]
        _put_all(store, reversed(keys))
        assert all_keys(store) == keys
        assert all_keys(store, "a/") == ["a/b.txt", "a/b/1", "a/b/10", "a/b/2"]

    def test_a_prefix_ends_at_a_segment(self, store: Store) -> None:
        _put_all(store, ["log/1", "log/a/2", "log-old/3", "logs/4"])
        assert all_keys(store, "log/") == ["log/1", "log/a/2"]
        assert all_keys(store, "log/a/") == ["log/a/2"]

    def test_a_prefix_must_end_in_a_slash(self, store: Store) -> None:
        assert_refused(lambda: store.list_page("log"))

    def test_after_starts_above_a_key(self, store: Store) -> None:
        keys = [f"log/{number:03}" for number in range(30)]
        _put_all(store, [*keys, "other/1"])
        for after, expected in (
            ("log/010", keys[11:]),
            ("log/010x", keys[11:]),
            ("log/", keys),
            ("a", keys),
            ("log/029", []),
            ("z", []),
        ):
            assert _all_keys_after(store, "log/", after) == expected, after

    def test_a_deleted_key_can_be_the_start_of_a_page(self, store: Store) -> None:
        _put_all(store, ["a/1", "a/2", "a/3"])
        store.delete("a/2")
        assert _all_keys_after(store, "a/", "a/2") == ["a/3"]

    def test_odd_keys_are_keys_like_others(self, store: Store) -> None:
        for number, key in enumerate(self.odd_keys):
            store.put(f"odd/{key}", str(number).encode())
        assert all_keys(store, "odd/") == sorted(f"odd/{key}" for key in self.odd_keys)
        for number, key in enumerate(self.odd_keys):
            assert store.get(f"odd/{key}") == str(number).encode(), key
            assert all(found > f"odd/{key}" for found in store.list_page("odd/", f"odd/{key}").keys), key
            store.delete(f"odd/{key}")
        assert all_keys(store) == []

    def test_keys_that_name_other_places_are_refused(self, store: Store) -> None:
        store.put("inside", b"1")
        for key in self.refused_keys:
            assert_refused(partial(store.get, key))
            assert_refused(partial(store.put, key, b"2"))
            assert_refused(partial(store.delete, key))
            assert_refused(partial(store.list_page, f"{key}/"))
        assert all_keys(store) == ["inside"]

    def test_a_write_that_ended_is_seen_by_everybody(self, store: Store) -> None:
        def write_and_look(client: int) -> None:
            for number in range(5):
                key = f"seen/{client}/{number}"
                store.put(key, b"1")
                assert store.get(key) == b"1"
                assert key in all_keys(store, "seen/")

        race([partial(write_and_look, client) for client in range(4)])
        assert len(all_keys(store, "seen/")) == 20

    def test_readers_never_see_a_mixture(self, store: Store) -> None:
        versions = [bytes([letter]) * 50_000 for letter in b"abcd"]
        store.put("key", versions[0])
        done = threading.Event()

        def overwrite() -> None:
            try:
                for number in range(20):
                    store.put("key", versions[number % len(versions)])
            finally:
                done.set()

        def read() -> None:
            while not done.is_set():
                assert store.get("key") in versions
                assert all_keys(store) == ["key"]

        race([overwrite, read, read])

    def test_the_place_has_a_name(self, store: Store) -> None:
        assert store.describe()


class ListSizesContract:
    """For stores with `ListSizes`. Each test gets an empty `store`."""

    def test_sizes_are_those_of_the_objects_in_every_page(self, store: Store) -> None:
        assert isinstance(store, ListSizes)
        sizes = {f"a/{number:02d}": number for number in range(20)}
        for key, size in sizes.items():
            store.put(key, b"x" * size)
        store.put("b/other", b"1")
        assert all_sizes(store, "a/") == sizes
        assert [key for key, _ in store.list_sizes("a/", after="a/18").sizes] == ["a/19"]
        assert all_sizes(store, "c/") == {}


class ListTimesContract:
    """For stores with `ListTimes`. Each test gets an empty `store`."""

    clock_skew: ClassVar[timedelta] = timedelta(minutes=10)
    """How much the clock of the storage may differ from ours."""

    def test_times_are_those_of_the_writes_in_every_page(self, store: Store) -> None:
        assert isinstance(store, ListTimes)
        before = SYSTEM.now()
        sizes = {f"a/{number:02d}": number for number in range(20)}
        for key, size in sizes.items():
            store.put(key, b"x" * size)
        store.put("b/other", b"1")
        found = all_times(store, "a/")
        assert {one.key: one.size_bytes for one in found} == sizes
        assert [one.key for one in found] == sorted(sizes)
        for one in found:
            assert before - self.clock_skew <= one.written_at <= SYSTEM.now() + self.clock_skew
        assert [one.key for one in store.list_times("a/", after="a/18").objects] == ["a/19"]
        assert all_times(store, "c/") == []


class ReadPartsContract:
    """For stores with `ReadTail` and `ReadRanges`. Each test gets an empty `store`."""

    def test_a_tail_is_the_end_of_the_object(self, store: Store) -> None:
        assert isinstance(store, ReadTail)
        data = bytes(range(256)) * 1000
        store.put("some/key", data)
        for length in (1, 8, 65_536, len(data), len(data) + 1):
            assert store.tail("some/key", length) == Tail(data[-length:], len(data)), length
        assert store.tail("missing", 8) is None
        assert store.tail("some", 8) is None
        assert_refused(partial(store.tail, "../outside", 8))

    def test_ranges_are_those_bytes_in_the_order_that_was_asked_for(self, store: Store) -> None:
        assert isinstance(store, ReadRanges)
        data = bytes(number % 251 for number in range(3_000_000))
        store.put("some/key", data)
        wanted = [range(2_999_999, 3_000_000), range(10), range(5, 2_000_000), range(7, 8), range(len(data))]
        assert store.ranges("some/key", wanted) == [data[part.start : part.stop] for part in wanted]
        assert store.ranges("missing", wanted) is None
        assert store.ranges("some", wanted) is None
        assert_refused(partial(store.ranges, "../outside", wanted))


class PutInPartsContract:
    """For stores with `PutInParts`. Each test gets an empty `store`."""

    def test_parts_become_one_object(self, store: Store) -> None:
        assert isinstance(store, PutInParts)
        store.put("some/key", b"before")
        store.put_in_parts("some/key", (bytes([number]) * 1_000_000 for number in range(13)))
        assert store.get("some/key") == b"".join(bytes([number]) * 1_000_000 for number in range(13))
        store.put_in_parts("some/empty", iter(()))
        assert store.get("some/empty") == b""
        assert_refused(partial(store.put_in_parts, "../outside", (b"1",)))

    def test_an_error_in_the_middle_leaves_nothing(self, store: Store) -> None:
        assert isinstance(store, PutInParts)
        store.put("some/key", b"before")
        for key in ("some/key", "some/new"):
            try:
                store.put_in_parts(key, _broken_parts())
            except _BrokenError:
                continue
            raise AssertionError("the error of the caller was not raised")
        assert store.get("some/key") == b"before"
        assert store.get("some/new") is None
        assert all_keys(store) == ["some/key"]


class _BrokenError(Exception):
    """What a caller's parts raise."""


def _broken_parts() -> Iterator[bytes]:
    yield b"x" * 6_000_000
    raise _BrokenError


class PutIfAbsentContract:
    """For stores with `PutIfAbsent`. Each test gets an empty `store`."""

    racers: ClassVar[int] = 8
    races: ClassVar[int] = 10

    def test_it_promises_to_create(self, store: CreatingStore) -> None:
        assert isinstance(store, PutIfAbsent)

    def test_the_first_creates_and_the_second_is_refused(self, store: CreatingStore) -> None:
        assert store.put_if_absent("a/key", b"first")
        assert not store.put_if_absent("a/key", b"second")
        assert not store.put_if_absent("a/key", b"first")
        assert store.get("a/key") == b"first"
        assert all_keys(store) == ["a/key"]

    def test_an_object_that_was_put_is_in_the_way(self, store: CreatingStore) -> None:
        store.put("key", b"")
        assert not store.put_if_absent("key", b"second")
        assert store.get("key") == b""

    def test_a_deleted_object_is_not_in_the_way(self, store: CreatingStore) -> None:
        assert store.put_if_absent("key", b"first")
        store.delete("key")
        assert store.put_if_absent("key", b"second")
        assert store.get("key") == b"second"

    def test_odd_keys_can_be_created(self, store: CreatingStore) -> None:
        for key in ODD_KEYS:
            assert store.put_if_absent(key, b"1"), key
            assert not store.put_if_absent(key, b"2"), key

    def test_keys_that_name_other_places_are_not_created(self, store: CreatingStore) -> None:
        for key in KEYS_OUTSIDE:
            assert_refused(partial(store.put_if_absent, key, b""))
        assert all_keys(store) == []

    def test_of_racing_creators_one_wins(self, store: CreatingStore) -> None:
        offers = [f"offer {number}".encode() * 1000 for number in range(self.racers)]
        for number in range(self.races):
            key = f"race/{number}"
            won = race([partial(store.put_if_absent, key, offer) for offer in offers])
            assert won.count(True) == 1, f"{won.count(True)} creators won {key}"
            assert store.get(key) == offers[won.index(True)]


class RenameNoReplaceContract:
    """For stores with `RenameNoReplace`. Each test gets an empty `store`."""

    racers: ClassVar[int] = 8
    races: ClassVar[int] = 10

    def test_it_promises_to_rename(self, store: RenamingStore) -> None:
        assert isinstance(store, RenameNoReplace)

    def test_rename_moves(self, store: RenamingStore) -> None:
        store.put("a/old", b"data")
        assert store.rename_no_replace("a/old", "b/c/new")
        assert store.get("b/c/new") == b"data"
        assert all_keys(store) == ["b/c/new"]

    def test_rename_never_replaces(self, store: RenamingStore) -> None:
        store.put("old", b"old")
        store.put("new", b"new")
        assert not store.rename_no_replace("old", "new")
        assert not store.rename_no_replace("new", "new")
        assert (store.get("old"), store.get("new")) == (b"old", b"new")

    def test_what_is_not_there_is_not_moved(self, store: RenamingStore) -> None:
        store.put("directory/below", b"")
        for source in ("missing", "missing/below", "directory"):
            assert not store.rename_no_replace(source, "new")
            assert not store.rename_no_replace(source, "target/new")
        assert all_keys(store) == ["directory/below"]

    def test_keys_that_name_other_places_are_not_moved(self, store: RenamingStore) -> None:
        store.put("inside", b"")
        for key in KEYS_OUTSIDE:
            assert_refused(partial(store.rename_no_replace, "inside", key))
            assert_refused(partial(store.rename_no_replace, key, "target"))
        assert all_keys(store) == ["inside"]

    def test_of_racing_movers_to_one_target_one_wins(self, store: RenamingStore) -> None:
        for number in range(self.races):
            target, sources = f"race/{number}", [f"race/{number}.{racer}" for racer in range(self.racers)]
            for source in sources:
                store.put(source, source.encode())
            won = race([partial(store.rename_no_replace, source, target) for source in sources])
            assert won.count(True) == 1, f"{won.count(True)} movers won {target}"
            winner = sources[won.index(True)]
            assert store.get(target) == winner.encode()
            assert [store.get(source) is None for source in sources] == won

    def test_of_racing_movers_of_one_source_one_wins(self, store: RenamingStore) -> None:
        for number in range(self.races):
            source, targets = f"from/{number}", [f"to/{number}/{racer}" for racer in range(self.racers)]
            store.put(source, b"data")
            won = race([partial(store.rename_no_replace, source, target) for target in targets])
            assert won.count(True) == 1, f"{won.count(True)} movers moved {source}"
            assert all_keys(store, f"to/{number}/") == [targets[won.index(True)]]
            assert store.get(source) is None


StrategyOn: TypeAlias = Callable[[Store], CommitStrategy]
"""Creates the strategy for one client, on the given store."""


def fresh_claimant() -> TxId:
    return TxId(uuid4().hex)


def offer(strategy: CommitStrategy, version: int, record: bytes) -> Outcome:
    """Publishes `record` in the name of a new claimant."""
    return strategy.publish(Version(version), record, fresh_claimant())


def history(strategy: CommitStrategy) -> list[bytes]:
    """All decided records, oldest first."""
    newest = strategy.head(GENESIS).number
    records = [strategy.read(Version(number)) for number in range(1, newest + 1)]
    assert None not in records, "a version below the head cannot be read"
    return [record for record in records if record is not None]


class StrategyContract:
    """For every commit strategy. Each test gets an empty `store`, and `strategy_on`.

    `strategy_on` is called with the store once for each client. It is also called with stores that lose
    answers or repeat requests late, because a strategy must keep its promises there as well.
    """

    racers: ClassVar[int] = 8
    versions: ClassVar[int] = 10

    def test_at_first_nothing_is_decided(self, store: Store, strategy_on: StrategyOn) -> None:
        strategy = strategy_on(store)
        assert strategy.head(GENESIS) == GENESIS
        assert strategy.read(Version(1)) is None

    def test_a_commit_is_read_by_everybody(self, store: Store, strategy_on: StrategyOn) -> None:
        assert offer(strategy_on(store), 1, b"first") == Committed()
        other = strategy_on(store)
        assert other.read(Version(1)) == b"first"
        assert other.head(GENESIS) == Version(1)
        assert other.read(Version(2)) is None

    def test_a_loser_gets_the_record_that_won(self, store: Store, strategy_on: StrategyOn) -> None:
        winner, loser = strategy_on(store), strategy_on(store)
        for version in (1, 2, 3):
            won = f"won {version}".encode()
            assert offer(winner, version, won) == Committed()
            assert offer(loser, version, b"lost") == Lost(won)
        assert offer(loser, 1, b"late") == Lost(b"won 1")
        assert history(loser) == [b"won 1", b"won 2", b"won 3"]

    def test_a_record_is_kept_byte_for_byte(self, store: Store, strategy_on: StrategyOn) -> None:
        record = bytes(range(256)) * 4000
        assert offer(strategy_on(store), 1, record) == Committed()
        assert strategy_on(store).read(Version(1)) == record
        assert offer(strategy_on(store), 1, b"late") == Lost(record)

    def test_the_head_is_found_from_every_older_version(self, store: Store, strategy_on: StrategyOn) -> None:
        writer = strategy_on(store)
        for version in range(1, 13):
            assert offer(writer, version, str(version).encode()) == Committed()
            assert writer.head(Version(version - 1)) == Version(version)
        for known in range(13):
            assert strategy_on(store).head(Version(known)) == Version(12)

    def test_resolve_tells_the_winner_and_the_loser_apart(
        self, store: Store, strategy_on: StrategyOn
    ) -> None:
        assert offer(strategy_on(store), 1, b"won") == Committed()
        later = strategy_on(store)
        for _ in range(2):
            assert later.resolve(Version(1), b"won", fresh_claimant()) == Committed()
            assert later.resolve(Version(1), b"lost", fresh_claimant()) == Lost(b"won")

    def test_racing_clients_agree_on_every_version(self, store: Store, strategy_on: StrategyOn) -> None:
        clients = [strategy_on(store) for _ in range(self.racers)]
        won: list[bytes] = []
        for version in range(1, self.versions + 1):
            offers = [f"{version} by {client}".encode() for client in range(self.racers)]
            outcomes = race(
                [partial(offer, *pair) for pair in zip(clients, repeat(version), offers, strict=False)]
            )
            assert outcomes.count(Committed()) == 1, outcomes
            won.append(offers[outcomes.index(Committed())])
            assert all(outcome in (Committed(), Lost(won[-1])) for outcome in outcomes), outcomes
        assert history(strategy_on(store)) == won

    def test_everybody_gets_through_in_the_end(self, store: Store, strategy_on: StrategyOn) -> None:
        def commit_two(client: int) -> list[bytes]:
            strategy, told = strategy_on(store), list[bytes]()
            for version in range(1, 2 * self.racers + 1):
                record = f"{version} by {client}".encode()
                if len(told) < 2 and offer(strategy, version, record) == Committed():
                    told.append(record)
            return told

        told = race([partial(commit_two, client) for client in range(self.racers)])
        assert all(len(records) == 2 for records in told), told
        assert sorted(history(strategy_on(store))) == sorted(record for records in told for record in records)

    def test_a_lost_answer_can_be_settled_later(self, store: Store, strategy_on: StrategyOn) -> None:
        self._with_silence_from_each_request(store, strategy_on, lose_answer)

    def test_a_lost_request_can_be_settled_later(self, store: Store, strategy_on: StrategyOn) -> None:
        self._with_silence_from_each_request(store, strategy_on, lose_request)

    def _with_silence_from_each_request(self, store: Store, strategy_on: StrategyOn, action: Action) -> None:
        """Storage falls silent at request 0, 1, 2, … of a commit; every answer must be true afterwards."""
        counting, tally = counted(store)
        assert offer(strategy_on(counting), 1, b"undisturbed") == Committed()
        for silent_from in range(sum(tally.counts().values()) + 1):
            version, ours = Version(silent_from + 2), f"ours {silent_from}".encode()
            silent, _ = faulty(store, Fault(lambda _: True, action, skip=silent_from, times=None))
            told = _publish(strategy_on(silent), version, ours)
            settled = (
                strategy_on(store).resolve(version, ours, fresh_claimant()) if told != "rejected" else None
            )
            if settled is None:
                # Certainly not decided, and never will be: others can take the version.
                assert offer(strategy_on(store), version.number, b"theirs") == Committed(), silent_from
            else:
                assert told in (settled, "unknown"), (silent_from, told, settled)
            expected = b"theirs" if settled is None else ours
            assert strategy_on(store).read(version) == expected, silent_from

    def test_late_repeats_change_nothing(self, store: Store, strategy_on: StrategyOn) -> None:
        late: list[Callable[[], Answer]] = []
        repeating, _ = faulty(store, Fault(lambda _: True, DuplicatedLate(late), times=None))
        strategy = strategy_on(repeating)
        for version in (1, 2, 3):
            assert offer(strategy, version, f"won {version}".encode()) == Committed()
            assert offer(strategy, version, f"lost {version}".encode()) == Lost(f"won {version}".encode())
        for play in late:
            play()
        assert history(strategy_on(store)) == [b"won 1", b"won 2", b"won 3"]


def _publish(strategy: CommitStrategy, version: Version, record: bytes) -> Outcome | str:
    """What the caller of `publish` knows: the outcome, "unknown", or "rejected"."""
    try:
        outcome = strategy.publish(version, record, fresh_claimant())
    except StorageError:
        return "rejected"
    return "unknown" if isinstance(outcome, Unknown) else outcome
