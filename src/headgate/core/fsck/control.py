"""Checks what is derived from the log or belongs to it: entries, the outbox, checkpoints, the state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.fsck.kinds import COMPARE, REPAIR_FIRST, TWINS, Seen, Trouble, finding, trouble_with
from headgate.core.fsck.log import LogJudge
from headgate.core.history.descriptor import descriptor
from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.control_entry import ControlEntry
from headgate.model.footprint import file_mark
from headgate.model.fsck import Finding
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import JsonObject
from headgate.model.plan import PendingPlan
from headgate.model.record import Record

SHOWN = 5
"""How many versions a note names."""


@dataclass(frozen=True, slots=True)
class Control:
    """The objects under `control/` other than the log, listed before it, so that none is of a later version.

    Keys by version; `mark` and `last` are the contents of the two objects that name a version.
    """

    mark_key: str
    mark: Seen
    last_key: str
    last: Seen
    entries: Mapping[Version, str]
    outbox: Mapping[Version, str]
    checkpoints: Mapping[Version, str]
    strays: tuple[str, ...] = ()


def named_version(data: Seen, key: str) -> Version | None:
    """The version that an object such as `last.json` names; None if it cannot be read."""
    if not isinstance(data, bytes):
        return None
    try:
        return JsonObject.parse(data, key).version("version")
    except CorruptLakeError:
        return None


def judge_control(control: Control, head: Version, divisor: int | None) -> list[Finding]:
    """The findings that follow from names alone."""
    beyond = (
        ("entry-beyond-head", control.entries, "a control entry"),
        ("checkpoint-beyond-head", control.checkpoints, "a checkpoint"),
        ("outbox-orphan", control.outbox, "an object in the outbox"),
    )
    found = [
        finding(kind, key, f"{what} of version {version}, but the newest is {head}")
        for kind, keys, what in beyond
        for version, key in sorted(keys.items())
        if version > head
    ]
    found += [*_mark(control, head), *_last(control), *_missing_checkpoints(control, head, divisor)]
    if control.strays:
        told = f"{_count(len(control.strays), 'object')} that Headgate did not write, such as this one"
        found.append(finding("control-stray", control.strays[0], told))
    return found


def _mark(control: Control, head: Version) -> list[Finding]:
    key, data = control.mark_key, control.mark
    if data is None:
        return []
    if isinstance(data, Trouble):
        return [trouble_with(key, data)]
    version = named_version(data, key)
    if version is None:
        return [finding("mark-wrong", key, "it names no version; recovery checks all of them")]
    if version > head:
        told = f"it names version {version}, but the newest is {head}"
        return [finding("mark-wrong", key, told, REPAIR_FIRST)]
    return []


def _last(control: Control) -> list[Finding]:
    key, data = control.last_key, control.last
    if data is None:
        return []  # only a hint: the listing has the same information
    if isinstance(data, Trouble):
        return [trouble_with(key, data)]
    version = named_version(data, key)
    if version == GENESIS or version in control.checkpoints:
        return []
    told = "it names no version" if version is None else f"it names version {version}, without a checkpoint"
    return [finding("last-checkpoint-wrong", key, told)]


def _missing_checkpoints(control: Control, head: Version, divisor: int | None) -> list[Finding]:
    if divisor is None:
        return []
    numbers = range(divisor, head.number + 1, divisor)
    missing = [number for number in numbers if Version(number) not in control.checkpoints]
    if not missing:
        return []
    mark = named_version(control.mark, control.mark_key) or GENESIS
    step = None if missing[0] > mark.number else "run headgate rebuild-control"
    told = f"no checkpoint of {_versions(missing)}"
    return [finding("checkpoint-missing", control.last_key.rpartition("/")[0] + "/", told, step)]


# --- entries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgedEntry:
    """An entry as it was read; `entry` is None if there is none that can be read."""

    entry: ControlEntry | None
    findings: tuple[Finding, ...] = ()


def judge_entry(key: str, data: Seen, version: Version, record: Record | None, digest: str) -> JudgedEntry:
    """Compares a control entry with its record; without the record, checks only the entry."""
    if data is None:
        return JudgedEntry(None)
    if isinstance(data, Trouble):
        return JudgedEntry(None, (trouble_with(key, data),))
    try:
        said = JsonObject.parse(data, key).number("version")
        if said != version.number:
            return JudgedEntry(None, (finding("entry-differs", key, f"it is the entry of version {said}"),))
        entry = ControlEntry.decode(data, version, key)
    except UnsupportedError:
        return JudgedEntry(None)  # written by a later release
    except CorruptLakeError as error:
        return JudgedEntry(None, (finding("entry-unreadable", key, error.problem),))
    wrong = [] if record is None else _differences(entry, record, digest)
    if not wrong:
        return JudgedEntry(entry)
    told = f"the entry of version {version} differs from its record in: {', '.join(wrong)}"
    step = COMPARE if record is not None and entry.record != digest else None
    if record is not None and entry.txid != record.txid:
        step = TWINS
    return JudgedEntry(entry, (finding("entry-differs", key, told, step),))


def _differences(entry: ControlEntry, record: Record, digest: str) -> list[str]:
    parts = {
        "txid": entry.txid == record.txid,
        "digest of the record": entry.record == digest,
        "descriptor": dict(entry.descriptor) == descriptor(record),
        "hooks": tuple(hook.name for hook in entry.hooks) == record.hooks,
    }
    return [name for name, same in parts.items() if not same]


def judge_missing_entries(missing: Sequence[int], mark: Version, key: str) -> list[Finding]:
    """Versions without an entry: those that recovery has handled must have one."""
    lost = [number for number in missing if number <= mark.number]
    due = [number for number in missing if number > mark.number]
    found = []
    if lost:
        told = f"no entry of {_versions(lost)}, although all versions up to {mark} were recovered"
        found.append(finding("entry-missing", key, told))
    if due:
        found.append(finding("entry-due", key, f"no entry of {_versions(due)}: recover writes them"))
    return found


def judge_outbox(
    control: Control, judge: LogJudge, entries: Mapping[Version, ControlEntry], head: Version
) -> list[Finding]:
    """Whether every object in the outbox belongs to a version with open hooks."""
    found = []
    for version, key in sorted(control.outbox.items()):
        known, entry = judge.known.get(version), entries.get(version)
        if version > head or known is None:
            continue  # reported already, or its record is lost
        if not known.hooks:
            told = f"version {version} has no hooks"
            found.append(finding("outbox-orphan", key, told))
        elif entry is not None and not entry.open_hooks:
            found.append(finding("outbox-done", key, f"all hooks of version {version} are done"))
    return found


def untold_hooks(control: Control, entries: Mapping[Version, ControlEntry]) -> tuple[Version, ...]:
    """Versions with open hooks that are missing in the outbox: they must be read once more."""
    return tuple(v for v, entry in sorted(entries.items()) if entry.open_hooks and v not in control.outbox)


# --- the state ----------------------------------------------------------------------------------------------


def judge_state(judge: LogJudge) -> list[Finding]:
    """Checks tags, and the last batches of applications. Only for a state that is certain."""
    state = judge.state
    found = [
        finding(
            "tag-wrong", f"tag {name}", f"the tag names version {version}, but the newest is {judge.head}"
        )
        for name, version in sorted(state.tags.items())
        if version > judge.head
    ]
    for app, progress in sorted(state.apps.items()):
        known = judge.known.get(progress.version)
        said = None if known is None or known.app is None else (known.app.app, known.app.batch)
        if judge.complete and said != (app, progress.batch):
            told = f"batch {progress.batch} should be in version {progress.version}, which has {said}"
            found.append(finding("app-wrong", f"application {app}", told))
    return found


def judge_plans(judge: LogJudge, live: Mapping[str, Collection[str]]) -> list[Finding]:
    """Checks that pending plans have their inputs. `live` are the known data files of tables, by uuid."""
    there = {ref.uuid for ref in judge.state.tables.values()}
    found = []
    for txid, plan in sorted(judge.state.plans.items()):
        where = f"plan {txid} of version {plan.version}"
        if plan.table not in there:
            found.append(finding("plan-without-table", where, f"no table has the uuid {plan.table}"))
        elif plan.inputs is not None and plan.table in live:
            marks = {file_mark(path) for path in live[plan.table]}
            gone = len(plan.inputs - marks)
            if gone:
                told = f"{gone} of its {_count(len(plan.inputs), 'file')} are not in the table"
                found.append(finding(_kind_of_gone(plan, judge), where, told))
    return found


def _kind_of_gone(plan: PendingPlan, judge: LogJudge) -> str:
    """A compaction plan allows changes of its files; a change of the files of a clustering plan ends it."""
    later = [one for one in judge.tables.get(plan.table, ()) if one.version > plan.version]
    removed = any(one.operation not in (None, "append") for one in later) or not judge.complete
    return "plan-overtaken" if plan.service == "compaction" and removed else "plan-without-inputs"


def _versions(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN]))
    if len(numbers) > SHOWN:
        return f"{len(numbers)} versions ({shown}, …)"
    return f"version{'' if len(numbers) == 1 else 's'} {shown}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def joined(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """All findings, each once, damage first; otherwise in the order in which they were found."""
    once = dict.fromkeys(findings)
    return tuple(sorted(once, key=lambda one: not one.is_damage))
