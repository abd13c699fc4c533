"""Trying out a storage: which promises it keeps, found by doing rather than by asking.

Works under `control/probe/<id>/` and removes what it wrote. A promise that cannot be tried, or whose trial
fails, counts as not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from headgate.errors import HeadgateError
from headgate.host import Host
from headgate.model.probe import Finding, ProbeReport, Promise
from headgate.storage.capabilities import PutIfAbsent, RenameNoReplace, Store
from headgate.storage.listing import all_keys

PROBE = "control/probe/"
RACES = 6
RACERS = 4
OVERWRITES = 6
BIG = 64 * 1024


def probe(store: Store, host: Host) -> ProbeReport:
    """Tries every promise that `store` offers. Leaves nothing behind unless the process dies inside.

    Raises a `StorageError` if nothing can be written there at all.
    """
    bench = _Bench(store, host, f"{PROBE}{host.new_txid()}/")
    store.put(f"{bench.place}hello", b"")
    try:
        return ProbeReport(tuple(bench.findings()))
    finally:
        bench.remove()


@dataclass(frozen=True, slots=True)
class _Bench:
    store: Store
    host: Host
    place: str

    def findings(self) -> Iterator[Finding]:
        yield self._try(Promise.READ_AFTER_WRITE, self._read_after_write)
        yield self._try(Promise.WHOLE_PUT, self._whole_put)
        yield self._try(Promise.LIST_AFTER_WRITE, self._list_after_write)
        yield self._try(Promise.ORDERED_LISTING, self._ordered_listing)
        store = self.store
        if isinstance(store, PutIfAbsent):
            create = store.put_if_absent
            yield self._try(Promise.CREATE_REFUSED, lambda: self._second_refused(create))
            yield self._try(Promise.CREATE_RACE, lambda: self._one_winner(create))
        if isinstance(store, RenameNoReplace):
            rename = self._staged_rename(store)
            yield self._try(Promise.RENAME_REFUSED, lambda: self._second_refused(rename))
            yield self._try(Promise.RENAME_RACE, lambda: self._one_winner(rename))

    def remove(self) -> None:
        for key in all_keys(self.store, self.place):
            self.store.delete(key)

    def _try(self, promise: Promise, trial: Callable[[], str]) -> Finding:
        try:
            detail = trial()
        except HeadgateError as error:
            detail = error.problem
        return Finding(promise, held=not detail, detail=detail)

    def _key(self, name: str) -> str:
        return f"{self.place}{name}-{self.host.new_txid()}"

    # Each trial returns what was wrong, or an empty text.

    def _read_after_write(self) -> str:
        key = self._key("read")
        for content in (b"first", b"second"):
            self.store.put(key, content)
            if self.store.get(key) != content:
                return "a GET right after the PUT did not return what was written"
        return ""

    def _whole_put(self) -> str:
        key = self._key("whole")
        contents = [bytes([65 + number]) * BIG for number in range(OVERWRITES)]
        self.store.put(key, contents[0])
        writes = [partial(self.store.put, key, content) for content in contents]
        reads = [partial(self.store.get, key) for _ in contents]
        seen = self.host.together([task for pair in zip(writes, reads, strict=True) for task in pair])
        torn = [data for data in seen if data is not None and data not in contents]
        return "a GET during a PUT returned a part of an object" if torn else ""

    def _list_after_write(self) -> str:
        prefix = f"{self._key('list')}/"
        for number in range(4):
            self.store.put(f"{prefix}{number}", b"")
            if f"{prefix}{number}" not in all_keys(self.store, prefix):
                return "a LIST right after the PUT did not show the object"
        return ""

    def _ordered_listing(self) -> str:
        prefix = f"{self._key('order')}/"
        names = ["sub-hint/x", "1/b", "2/a", "1/a", "1.txt", "10", "sub-tracker/x"]
        for name in names:
            self.store.put(prefix + name, b"")
        listed = all_keys(self.store, prefix)
        return "" if listed == sorted(prefix + name for name in names) else "the keys came in another order"

    def _second_refused(self, create: Callable[[str, bytes], bool]) -> str:
        key = self._key("second")
        if not create(key, b"first"):
            return "the first attempt was refused"
        if create(key, b"second"):
            return "the second attempt was accepted"
        return "" if self.store.get(key) == b"first" else "the refused attempt changed the object"

    def _one_winner(self, create: Callable[[str, bytes], bool]) -> str:
        for _ in range(RACES):
            key = self._key("race")
            contents = [b"%d" % number for number in range(RACERS)]
            won = self.host.together([partial(create, key, content) for content in contents])
            winners = [content for content, first in zip(contents, won, strict=True) if first]
            if len(winners) != 1:
                return f"{len(winners)} of {RACERS} racing attempts were told that they were first"
            if self.store.get(key) != winners[0]:
                return "the object is not the one of the winner"
        return ""

    def _staged_rename(self, store: RenameNoReplace) -> Callable[[str, bytes], bool]:
        def create(key: str, content: bytes) -> bool:
            source = self._key("staged")
            self.store.put(source, content)
            return store.rename_no_replace(source, key)

        return create
