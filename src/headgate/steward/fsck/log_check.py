"""Checks the log, and the objects that are derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from headgate.core.fsck.control import (
    Control,
    judge_control,
    judge_entry,
    judge_missing_entries,
    judge_outbox,
    judge_state,
    named_version,
    untold_hooks,
)
from headgate.core.fsck.kinds import Seen, Trouble, finding
from headgate.core.fsck.log import (
    Beginning,
    Copy,
    LogJudge,
    SeenIdentity,
    SeenVersion,
    judge_creation,
    judge_identity,
    judge_leftovers,
)
from headgate.errors import CorruptLakeError, NotFoundError, UnsupportedError
from headgate.log.layout import (
    CHECKPOINTS,
    ENTRIES,
    IDENTITY,
    LAST_CHECKPOINT,
    LOG,
    OUTBOX,
    PLAIN,
    RECOVERED,
    TIMELINE,
    TRACKER,
    RecordLayout,
    announced_txid,
    attempted_version,
    checkpoint_key,
    checkpoint_version,
    entry_key,
    entry_version,
    outbox_key,
    outbox_version,
    record_version,
)
from headgate.log.strategy import LAYOUTS
from headgate.model.announcement import Announcement
from headgate.model.control_entry import ControlEntry
from headgate.model.fsck import Finding
from headgate.model.identifiers import GENESIS, TxId, Version, unpadded
from headgate.model.json_object import JsonObject
from headgate.model.record import Record
from headgate.steward.fsck.sight import Sight, batches

RECORD_ZERO = TRACKER.record_key(GENESIS)
_STRATEGIES: Mapping[str, frozenset[str]] = {
    layout.index: frozenset(name.value for name, known in LAYOUTS.items() if known is layout)
    for layout in LAYOUTS.values()
}


@dataclass(frozen=True, slots=True)
class LoggedLake:
    """The result of checking the log: its beginning, the judge of its records, and all findings."""

    beginning: Beginning
    judge: LogJudge
    findings: tuple[Finding, ...]
    entries: int


@dataclass
class LogCheck:
    """One check of the log. `progress` gets the number of checked versions, and the total."""

    sight: Sight
    progress: Callable[[int, int], None]
    findings: list[Finding] = field(default_factory=list)
    entries: dict[Version, ControlEntry] = field(default_factory=dict)
    entry_count: int = 0

    def run(self) -> LoggedLake:
        """Checks all of `control/`, and `headgate.json`. Raises `NotFoundError` if there is nothing."""
        # Before the log: objects derived from a version are written after its record.
        control, announced = self._control(), self.sight.keys(TIMELINE)
        keys = self.sight.keys(LOG)
        records = _records(keys)
        beginning = self._begin(records, keys)
        now = self.sight.driver.host.now()
        self.findings += judge_creation(beginning.identity, RECORD_ZERO, now)
        judge = LogJudge(beginning.state, RECORD_ZERO, now)
        self._walk(judge, records, control)
        judge.end()
        self._judge_derived(judge, control, beginning)
        self._announcements(announced, judge)
        strays = [key for key in keys if key not in judge.leftovers and _is_left(key, judge.head)]
        found = [*beginning.findings, *judge.findings, *self.findings]
        found += judge_leftovers([*judge.leftovers, *strays])
        return LoggedLake(beginning, judge, tuple(found), self.entry_count)

    # --- the beginning ------------------------------------------------------------------------------------

    def _begin(self, records: Mapping[Version, list[str]], keys: list[str]) -> Beginning:
        copy, record = self.sight.get_all([IDENTITY, RECORD_ZERO])
        if copy is None and record is None and not keys:
            raise NotFoundError(
                f"there is no lake at {self.sight.driver.store.describe()}",
                "check the location, or create a lake there with `headgate init` or Lake.init",
            )
        first = next(iter(self.sight.get_all(records.get(Version(1), [])[:1])), None)
        return judge_identity(SeenIdentity(IDENTITY, copy, RECORD_ZERO, record, _previous(first)))

    # --- records ------------------------------------------------------------------------------------------

    def _walk(self, judge: LogJudge, records: Mapping[Version, list[str]], control: Control) -> None:
        last = max(records, default=GENESIS).number
        mark = named_version(control.mark, control.mark_key) or GENESIS
        missing: list[int] = []
        for batch in batches(map(Version, range(1, last + 1))):
            seen = self.sight.together([partial(self._version, v, records, control) for v in batch])
            entries = self.sight.get_all([entry_key(version) for version in batch])
            for one, entry in zip(seen, entries, strict=True):
                record = judge.take(one)
                if one.version == judge.head:
                    self._entry(one.version, entry, record, judge)
                    missing += [one.version.number] if entry is None else []
            self.progress(batch[-1].number, last)
        self.findings += judge_missing_entries(missing, mark, ENTRIES)

    def _version(
        self, version: Version, records: Mapping[Version, list[str]], control: Control
    ) -> SeenVersion:
        keys = records.get(version, [])
        if not keys:
            # The listing may lack a record that was decided while it was running, but contain a later one.
            keys = [layout.record_key(version) for layout in (PLAIN, TRACKER)]
        copies = [self._copy(key) for key in keys]
        where = checkpoint_key(version)
        return SeenVersion(
            version,
            keys[0],
            tuple(copy for copy in copies if copy is not None),
            where,
            self.sight.get(where) if version in control.checkpoints else None,
        )

    def _copy(self, key: str) -> Copy | None:
        data = self.sight.get(key)
        layout: RecordLayout = PLAIN if PLAIN.indexed_version(key) is not None else TRACKER
        return None if data is None else Copy(key, data, _STRATEGIES[layout.index])

    # --- what is derived ----------------------------------------------------------------------------------

    def _control(self) -> Control:
        mark, last = self.sight.get_all([RECOVERED, LAST_CHECKPOINT])
        outbox = self.sight.keys(OUTBOX)
        entries, checkpoints = self.sight.keys(ENTRIES), self.sight.keys(CHECKPOINTS)
        strays = [
            *(key for key in outbox if outbox_version(key) is None),
            *(key for key in entries if entry_version(key) is None and key != RECOVERED),
            *(key for key in checkpoints if checkpoint_version(key) is None and key != LAST_CHECKPOINT),
        ]
        return Control(
            RECOVERED,
            mark,
            LAST_CHECKPOINT,
            last,
            _by_version(entries, entry_version),
            _by_version(outbox, outbox_version),
            _by_version(checkpoints, checkpoint_version),
            tuple(strays),
        )

    def _entry(self, version: Version, data: Seen, record: Record | None, judge: LogJudge) -> None:
        known = judge.known.get(version)
        judged = judge_entry(entry_key(version), data, version, record, "" if known is None else known.digest)
        self.findings += judged.findings
        self.entry_count += data is not None
        if judged.entry is not None and judged.entry.hooks:
            self.entries[version] = judged.entry

    def _judge_derived(self, judge: LogJudge, control: Control, beginning: Beginning) -> None:
        divisor = None if beginning.identity is None else beginning.identity.divisor
        self.findings += judge_control(control, judge.head, divisor)
        self.findings += judge_outbox(control, judge, self.entries, judge.head)
        for version in untold_hooks(control, self.entries):
            self.findings += self._open_hooks(version)
        if judge.certain:
            self.findings += judge_state(judge)

    def _open_hooks(self, version: Version) -> list[Finding]:
        """Reads both again, first the outbox: finished hooks leave the entry before they leave the outbox."""
        told = self.sight.get(outbox_key(version))
        data = self.sight.get(entry_key(version))
        entry = judge_entry(entry_key(version), data, version, None, "").entry
        if told is not None or entry is None or not entry.open_hooks:
            return []
        names = ", ".join(hook.name for hook in entry.open_hooks)
        return [
            finding("outbox-missing", outbox_key(version), f"{names} of version {version} would never run")
        ]

    # --- announcements ------------------------------------------------------------------------------------

    def _announcements(self, keys: list[str], judge: LogJudge) -> None:
        named = {key: txid for key in keys if (txid := announced_txid(key)) is not None}
        for key, data in zip(named, self.sight.get_all(list(named)), strict=True):
            self.findings += self._announcement(key, named[key], data, judge)
        strays = [key for key in keys if key not in named]
        if strays:
            told = f"{len(strays)} unreferenced objects, such as this one"
            self.findings.append(finding("control-stray", strays[0], told))

    def _announcement(self, key: str, txid: TxId, data: Seen, judge: LogJudge) -> list[Finding]:
        if not isinstance(data, bytes):
            return []  # removed meanwhile, or unreadable advice
        try:
            announcement = Announcement.decode(data, txid, key)
        except UnsupportedError:
            return []
        except CorruptLakeError as error:
            return [finding("announcement-unreadable", key, error.problem)]
        if txid in judge.state.cancelled:
            return [finding("announcement-dead", key, f"transaction {txid} was cancelled")]
        if not announcement.is_alive(self.sight.driver.host.now()):
            heard = f"{announcement.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC"
            return [finding("announcement-dead", key, f"its last heartbeat was at {heard}")]
        return []


def _previous(data: Seen) -> str | None:
    """The digest of the record that record 1 follows."""
    if data is None or isinstance(data, Trouble):
        return None
    try:
        return JsonObject.parse(data, "record 1").text("previous")
    except CorruptLakeError:
        return None


def _by_version(keys: list[str], version_of: Callable[[str], Version | None]) -> dict[Version, str]:
    return {version: key for key in keys if (version := version_of(key)) is not None}


def _records(keys: list[str]) -> dict[Version, list[str]]:
    """The objects that may be records, by version; without version 0."""
    found: dict[Version, list[str]] = {}
    for key in keys:
        version = record_version(key)
        if version is not None and version != GENESIS:
            found.setdefault(version, []).append(key)
    return found


def _is_left(key: str, head: Version) -> bool:
    """Whether an object of the log belongs to no version: not a record, nor part of how one was decided."""
    if record_version(key) is not None:
        return False
    version = attempted_version(key)
    if version is not None:
        return version > head or TRACKER.entry(version, key) is None
    marked = TRACKER.indexed_version(key) or _archived(key)
    return marked is None or marked > head


def _archived(key: str) -> Version | None:
    number = unpadded(key.removeprefix(f"{LOG}archive/").removesuffix(".txt"))
    if number is None:
        return None
    return Version(number) if key == TRACKER.archive_key(Version(number)) else None
