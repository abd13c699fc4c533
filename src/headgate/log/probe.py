"""Trying out a storage: which promises it keeps, found by doing rather than by asking.

Works under `control/probe/<id>/` and removes what it wrote, where it may. A promise whose trial the storage
refuses, or says it does not know, counts as broken; a trial that ends without an answer is repeated, and if
it stays so, that is what is reported: one lost answer must not decide forever how a lake commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from headgate.errors import HeadgateError, NoAnswerError, NotOfferedError, StorageError
from headgate.model.probe import Finding, ProbeReport, Promise, Seen
from headgate.storage.capabilities import PutIfAbsent, RenameNoReplace, Store
from headgate.storage.requests import all_keys
from headgate.system.host import Host

T = TypeVar("T")

PROBE = "control/probe/"
RACES = 6
RACERS = 4
OVERWRITES = 6
BIG = 64 * 1024
TRIES = 4
"""How often a trial is made as long as no answer comes."""
FIRST_REPEAT_SECONDS = 0.05
REPEAT_WINDOW_SECONDS = 10.0
"""How long after its beginning a trial is still made again: a service that hangs is not asked four times."""


def probe(store: Store, host: Host) -> ProbeReport:
    """Tests every promise that `store` makes.

    Objects that cannot be removed afterwards (writers do not need the right to delete) are named in the
    report; a process that dies during the probe leaves some as well. Raises a `StorageError` if nothing can
    be written there at all.
    """
    bench = _Bench(store, host, f"{PROBE}{host.new_txid()}/")
    # As large as anything below: a full disk says so here, and not about the promise that is tried first.
    bench.until_answered(partial(store.put, f"{bench.place}hello", bytes(BIG)))
    findings = tuple(bench.findings())
    return ProbeReport(findings, left=bench.remove())


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

    def remove(self) -> tuple[str, ...]:
        """Removes what the tests wrote, and returns what is left: it stops at the first refusal."""
        try:
            keys = all_keys(self.store, self.place)
        except StorageError:
            return (self.place,)
        for position, key in enumerate(keys):
            try:
                self.store.delete(key)
            except StorageError:
                return tuple(keys[position:])
        return ()

    def until_answered(self, trial: Callable[[], T]) -> T:
        """The result of `trial`, repeated if no answer comes; the last `NoAnswerError` if none ever does."""
        started = self.host.elapsed()
        for tried in range(1, TRIES):
            try:
                return trial()
            except NotOfferedError:
                raise
            except NoAnswerError:
                if self.host.elapsed() - started > REPEAT_WINDOW_SECONDS:
                    raise
                self.host.sleep(FIRST_REPEAT_SECONDS * 2**tried * self.host.chance())
        return trial()

    def _try(self, promise: Promise, trial: Callable[[], str]) -> Finding:
        try:
            detail = self.until_answered(trial)
        except NotOfferedError as error:
            detail = error.problem
        except NoAnswerError as error:
            return Finding(promise, Seen.UNANSWERED, error.problem)
        except HeadgateError as error:
            # A disk that has just become full refuses everything; that says nothing about this promise.
            if not self._takes_a_put():
                return Finding(promise, Seen.UNANSWERED, error.problem)
            detail = error.problem
        return Finding(promise, Seen.BROKEN if detail else Seen.KEPT, detail)

    def _takes_a_put(self) -> bool:
        try:
            self.store.put(self._key("still"), bytes(BIG))
        except StorageError:
            return False
        return True

    def _key(self, name: str) -> str:
        return f"{self.place}{name}-{self.host.new_txid()}"

    # Each trial returns what was wrong, or an empty text. It works under new names each time: requests of an
    # earlier one may still arrive.

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
            _doubt_own(self.store.get(key), [b"first"])
            return "the first attempt was rejected"
        if create(key, b"second"):
            return "the second attempt was accepted"
        return "" if self.store.get(key) == b"first" else "the rejected attempt changed the object"

    def _one_winner(self, create: Callable[[str, bytes], bool]) -> str:
        for _ in range(RACES):
            key = self._key("race")
            contents = [b"%d" % number for number in range(RACERS)]
            won = self.host.together([partial(create, key, content) for content in contents])
            winners = [content for content, first in zip(contents, won, strict=True) if first]
            if not winners:
                _doubt_own(self.store.get(key), contents)
            if len(winners) != 1:
                return f"{len(winners)} of {RACERS} concurrent attempts got the answer that they were first"
            if self.store.get(key) != winners[0]:
                return "the object is not the one of the winner"
        return ""

    def _staged_rename(self, store: RenameNoReplace) -> Callable[[str, bytes], bool]:
        def create(key: str, content: bytes) -> bool:
            source = self._key("staged")
            self.store.put(source, content)
            return store.rename_no_replace(source, key)

        return create


def _doubt_own(found: bytes | None, offered: list[bytes]) -> None:
    """An offer that was rejected because of itself: the client repeated it when the first answer was lost."""
    if found in offered:
        raise NoAnswerError("an attempt was carried out, and its repetition was rejected")
