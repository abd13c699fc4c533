"""Following the log to its end: from a version that is known to the newest one that can be read.

1. GET the next records, several at once if many are expected. Take them in order up to the first that is
   missing. Go on until one is.
2. If a later record of the same batch is there: GET the missing one again. If it is still missing, the log
   has a hole.
3. When a lake is opened, look for signs of later versions. If there is one: GET the next record again. If it
   is still missing, the log has lost its end.

Nothing is written, so a crash leaves nothing. Records are followed, not markers: a marker can be there before
its record, and a record can be there without a marker forever, if its writer died between the two.

The first record that is missing is the end of the log, unless something shows otherwise. Two things do:

- A later record of the same batch is there. Both may have been decided between our requests, which is why the
  missing one is read again.
- A sign of a later version is there: something that is written only after its version was decided, such as
  its control entry or its marker. An accident that deletes the last records of a log rarely deletes those
  too. A log that has lost its end must not be treated as a shorter one: the next writer would commit other
  versions under the same numbers.

Signs are looked for when a lake is opened, not on every look at a log that is open: a handle that knows
version N reads nothing but the record of N + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from headgate.errors import StorageError
from headgate.log.layout import RecordLayout, TrackerLayout, entry_version
from headgate.log.machine import Ask, Finish
from headgate.model.identifiers import Version
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Failed, Found, Get, ListPage, Missing

S = TypeVar("S")

RECORDS_AT_ONCE = 64
"""How many records are asked for at once at the most."""
MAX_RECORDS = 10_000_000
"""How many records are followed before we say that the lake moves faster than we read."""


@dataclass(frozen=True, slots=True)
class Chain(Generic[S]):
    """What it means to follow a record: all that is known at a version, and what the next record adds.

    `after` raises a `CorruptLakeError` if the record does not follow. It is called once for each record, in
    order.
    """

    version: Callable[[S], Version]
    layout: Callable[[S], RecordLayout]
    after: Callable[[S, bytes], S]


@dataclass(frozen=True, slots=True)
class Reached(Generic[S]):
    """How far the log was followed. `ended`: no record follows yet."""

    state: S
    ended: bool


@dataclass(frozen=True, slots=True)
class Hole:
    """The record of `version`, expected as the object `key`, is gone, although later ones exist."""

    version: Version
    key: str


@dataclass(frozen=True, slots=True)
class LostEnd:
    """The log ends at `head`, although the object `sign` shows that `version` was decided."""

    head: Version
    version: Version
    sign: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """Storage failed; the head is unknown."""

    error: StorageError


@dataclass(frozen=True, slots=True)
class Course(Generic[S]):
    """The state of the follower: what it knows, how many records it has read, how many to request next."""

    state: S
    taken: int
    at_once: int


@dataclass(frozen=True, slots=True)
class Reading(Generic[S]):
    course: Course[S]


@dataclass(frozen=True, slots=True)
class ReadingAgain(Generic[S]):
    """The next record was missing, but one of the `rest`, which were requested with it, was there."""

    course: Course[S]
    rest: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class LookingForSigns(Generic[S]):
    """No record follows: does anything show that one should?

    `requests` are under way; `signs` are the keys of markers and control entries that were seen before.
    """

    course: Course[S]
    requests: tuple[Get | ListPage, ...]
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Doubting(Generic[S]):
    """A sign was seen. The next record is read once more: it may have been decided after our first check.

    `proven`: the version was certainly decided.
    """

    course: Course[S]
    version: Version
    sign: str
    proven: bool = True


@dataclass(frozen=True, slots=True)
class LookingForProposals(Generic[S]):
    """A marker without a record: a client that died between the two leaves its proposal behind."""

    course: Course[S]
    doubt: Doubting[S]


Step: TypeAlias = "Ask | Finish[Reached[S] | Hole | LostEnd | NotFound]"
State: TypeAlias = "Reading[S] | ReadingAgain[S] | LookingForSigns[S] | Doubting[S] | LookingForProposals[S]"


@dataclass(frozen=True, slots=True)
class FollowLog(Generic[S]):
    """Reads every record after `start` that was readable when it began, or the next `at_most` of them.

    Requests `at_once` records at a time, and more if there are many. `window`: at the end, checks for signs
    of later versions, up to the next boundary of windows of this length. Beyond a boundary its checkpoint is
    the sign, and opening begins there. Without a `window`, checks for nothing.
    """

    start: S
    chain: Chain[S]
    at_once: int = 1
    at_most: int = MAX_RECORDS
    window: int | None = None

    def begin(self) -> Step[S]:
        return self._read(Course(self.start, 0, self.at_once))

    def resume(self, state: State[S], answers: tuple[Answer, ...]) -> Step[S]:
        failed = next((answer for answer in answers if isinstance(answer, Failed)), None)
        if failed is not None:
            return Finish(NotFound(failed.error))
        match state, answers:
            case Reading(course), _:
                return self._take(course, answers)
            case ReadingAgain(course, rest), (Found(data),):
                return self._take(self._after(course, data), rest)
            case ReadingAgain(course), (Missing(),):
                # Versions are decided in order, and a later one was there before this request: the record
                # must have been there, too.
                return Finish(Hole(self._next(course), self._next_key(course)))
            case LookingForSigns(), _:
                return self._looked(state, answers)
            case Doubting(course), (Found(data),):
                # It was decided while we looked; perhaps others, too, so we go on from here.
                return self._read(self._after(course, data))
            case Doubting(course), (Missing(),):
                return self._doubt(course, state)
            case LookingForProposals(course, doubt), (Page() as page,):
                return self._proposals(course, doubt, page)
            case _:
                raise AssertionError((state, answers))

    # --- records ------------------------------------------------------------------------------------------

    def _read(self, course: Course[S]) -> Step[S]:
        if course.taken >= self.at_most:
            return Finish(Reached(course.state, ended=False))
        layout, first = self.chain.layout(course.state), self._next(course).number
        count = min(course.at_once, self.at_most - course.taken)
        keys = (layout.record_key(Version(number)) for number in range(first, first + count))
        return Ask(Reading(course), tuple(Get(key) for key in keys))

    def _take(self, course: Course[S], answers: tuple[Answer, ...]) -> Step[S]:
        layout = self.chain.layout(course.state)
        for position, answer in enumerate(answers):
            if not isinstance(answer, Found):
                return self._missing(course, answers[position + 1 :])
            course = self._after(course, answer.data)
            if self.chain.layout(course.state).index != layout.index:
                break  # the next record lies elsewhere: the rest of this batch was a wrong guess
        return self._read(replace(course, at_once=min(RECORDS_AT_ONCE, 2 * course.at_once)))

    def _missing(self, course: Course[S], rest: tuple[Answer, ...]) -> Step[S]:
        # The requests of a batch have no order: a later record can be decided and read after our look at the
        # missing one. That is no hole yet.
        if any(isinstance(answer, Found) for answer in rest):
            return Ask(ReadingAgain(course, rest), (Get(self._next_key(course)),))
        return self._look_for_signs(course)

    def _after(self, course: Course[S], data: bytes) -> Course[S]:
        return Course(self.chain.after(course.state, data), course.taken + 1, course.at_once)

    def _next(self, course: Course[S]) -> Version:
        return self.chain.version(course.state).next()

    def _next_key(self, course: Course[S]) -> str:
        return self.chain.layout(course.state).record_key(self._next(course))

    # --- signs of later versions --------------------------------------------------------------------------

    def _look_for_signs(self, course: Course[S]) -> Step[S]:
        requests = () if self.window is None else self._signs(course, self.window)
        return Ask(LookingForSigns(course, requests), requests) if requests else self._end(course)

    def _signs(self, course: Course[S], window: int) -> tuple[Get | ListPage, ...]:
        head = self.chain.version(course.state)
        before_boundary = window - 1 - head.number % window
        # One look less where opening has to look at the record of a checkpoint, too.
        looks = min(before_boundary, 2 if course.taken else 1)
        return self.chain.layout(course.state).signs_beyond(head, looks) if looks else ()

    def _looked(self, state: LookingForSigns[S], answers: tuple[Answer, ...]) -> Step[S]:
        course, asked = state.course, zip(state.requests, answers, strict=True)
        signs = (*state.signs, *(key for request, answer in asked for key in _shown(request, answer)))
        unfinished = [page for page in answers if isinstance(page, Page) and not page.complete]
        if unfinished:
            more = (ListPage(self.chain.layout(course.state).index, unfinished[0].keys[-1]),)
            return Ask(LookingForSigns(course, more, signs), more)
        return self._judge(course, signs)

    def _judge(self, course: Course[S], signs: Iterable[str]) -> Step[S]:
        """Reads the next record once more if one of the `signs` is of a later version."""
        layout, head = self.chain.layout(course.state), self.chain.version(course.state)
        versions = ((entry_version(key) or layout.indexed_version(key), key) for key in signs)
        seen = {key: version for version, key in versions if version is not None and version > head}
        if not seen:
            return self._end(course)
        # Versions are decided in order, so whatever shows a later one proves the next one. The marker of the
        # next one itself does not: record and marker are written at once, so it can be there alone, forever.
        proven = any(version > head.next() or entry_version(key) for key, version in seen.items())
        sign = max(seen, key=seen.__getitem__)
        # The record is read after the entries, which are written after it: if an entry is there, the record
        # must be. Asked for at once, both could come in between.
        return self._ask(Doubting(course, seen[sign], sign, proven))

    def _ask(self, doubt: Doubting[S]) -> Step[S]:
        return Ask(doubt, (Get(self._next_key(doubt.course)),))

    def _doubt(self, course: Course[S], doubt: Doubting[S]) -> Step[S]:
        layout = self.chain.layout(course.state)
        # A marker proves nothing by itself: its writer may have died before it wrote the record. Then its
        # proposal is there, and nothing is lost.
        if isinstance(layout, TrackerLayout) and not doubt.proven:
            return Ask(LookingForProposals(course, doubt), (ListPage(layout.attempts(doubt.version)),))
        return Finish(LostEnd(self.chain.version(course.state), doubt.version, doubt.sign))

    def _proposals(self, course: Course[S], doubt: Doubting[S], page: Page) -> Step[S]:
        layout = self.chain.layout(course.state)
        assert isinstance(layout, TrackerLayout)
        if any(layout.holds_record(doubt.version, key) for key in page.keys):
            return self._end(course)  # the next client that claims the version completes it
        if not page.complete:
            more = ListPage(layout.attempts(doubt.version), page.keys[-1])
            return Ask(LookingForProposals(course, doubt), (more,))
        return Finish(LostEnd(self.chain.version(course.state), doubt.version, doubt.sign))

    def _end(self, course: Course[S]) -> Step[S]:
        return Finish(Reached(course.state, ended=True))


def _shown(request: Get | ListPage, answer: Answer) -> tuple[str, ...]:
    """The keys that exist according to an answer."""
    match request, answer:
        case Get(key), Found():
            return (key,)
        case _, Page(keys):
            return keys
        case _:
            return ()
