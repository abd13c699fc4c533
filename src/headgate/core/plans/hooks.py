"""Which hooks a commit triggers and in which order they run: decisions without any action."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter

from headgate.core.input.arguments import nearest, refuse_credential, texts, whole_number
from headgate.errors import InvalidInputError, shown
from headgate.model.control_entry import HookRun, HookState
from headgate.model.named_object import ObjectCommit
from headgate.model.record import Record
from headgate.model.table import TableAction, TableCommit, TableName

_NAME = re.compile(r"[A-Za-z0-9][\w.\-]{0,99}", re.ASCII)
_WILD = frozenset("*?[")

KINDS = (
    *("commit", "plan", "cancel", "switch", "expire"),
    *(action.value for action in TableAction),
    "replace",
    *("append", "overwrite", "delete", "update", "merge", "upsert", "compact"),
)
"""The kinds of a commit: the kinds of versions in the log, of table changes, and of row changes."""


@dataclass(frozen=True, slots=True)
class When:
    """The commits that trigger a hook. All given conditions must hold; an empty condition matches any commit.

    - `tables`: the commit changes one of these tables (names, or patterns such as `sales.*`).
    - `kinds`: the commit is of one of these kinds; with `tables`, for the same table.
    - `paths`: the commit adds or removes rows at one of these virtual paths, such as `/sales/orders/day=1`,
      or below it, or at a path that matches a pattern.
    - `min_rows`: the commit adds and removes at least this many rows in total, in the tables and at the paths
      that the other conditions select.
    - `users`: one of these users of the operating system made the commit (names, or patterns).
    - `apps`: the commit is a batch of one of these applications (names, or patterns).

    Views and mounts count as tables. A kind is the kind of the version in the log (`commit`, `plan`,
    `cancel`, `switch`, `expire`), a change of a table (`create`, `change`, `drop`, `rename`; `replace` for
    views and mounts) or a change of its rows (`append`, `overwrite`, `delete`, `update`, `merge`, `upsert`,
    `compact`). Invalid kinds, table names and paths are rejected, because the hook would silently never run.
    """

    tables: Sequence[str] = ()
    kinds: Sequence[str] = ()
    min_rows: int = 0
    paths: Sequence[str] = ()
    users: Sequence[str] = ()
    apps: Sequence[str] = ()

    def __post_init__(self) -> None:
        for what in ("tables", "kinds", "paths", "users", "apps"):
            object.__setattr__(self, what, texts(f"the {what} of a hook", getattr(self, what)))
        object.__setattr__(self, "paths", tuple(map(_checked_path, self.paths)))
        if whole_number("the min_rows of a hook", self.min_rows) < 0:
            raise InvalidInputError(
                f"the min_rows of a hook must be a non-negative integer, but is {self.min_rows}"
            )
        for name in self.tables:
            if _WILD.isdisjoint(name):
                TableName.parse(name)
        for kind in self.kinds:
            if kind not in KINDS:
                step = nearest(kind, KINDS) or f"kinds: {', '.join(KINDS)}"
                raise InvalidInputError(f"{kind!r} is not a kind of commit", step)

    def holds(self, record: Record) -> bool:
        """Whether it holds for a commit."""
        return self._fits_author(record) and self._fits_tables(record) and self._fits_rows(record)

    def _fits_author(self, record: Record) -> bool:
        app = () if record.app is None else (record.app.app,)
        return _fits(self.users, (record.command.user,)) and _fits(self.apps, app)

    def _fits_tables(self, record: Record) -> bool:
        if not self.tables:
            return not self.kinds or not kinds_of(record).isdisjoint(self.kinds)
        return any(self._fits_table(names, kinds) for names, kinds in _kinds_by_table(record))

    def _fits_table(self, names: Sequence[str], kinds: frozenset[str]) -> bool:
        return _fits(self.tables, names) and not (self.kinds and kinds.isdisjoint(self.kinds))

    def _fits_rows(self, record: Record) -> bool:
        if not self.paths and not self.min_rows:
            return True
        tables = {
            n for names, kinds in _kinds_by_table(record) if self._fits_table(names, kinds) for n in names
        }
        changes = [
            change
            for path, change in record.paths.items()
            if _table_of(path) in tables and (not self.paths or _is_below(path, self.paths))
        ]
        return bool(changes) and sum(each.rows_added + each.rows_removed for each in changes) >= self.min_rows


def _checked_path(path: str) -> str:
    if not path.startswith("/"):
        raise InvalidInputError(
            f"{path!r} is not a virtual path", "write it as /namespace/table/partition=value"
        )
    return path.rstrip("/")


def _fits(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one of the names matches one of the patterns. Without patterns, everything matches."""
    return not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _table_of(path: str) -> str:
    """The name of the table that a virtual path belongs to."""
    return ".".join(path.split("/", 3)[1:3])


def _is_below(path: str, patterns: Sequence[str]) -> bool:
    """Whether a virtual path equals or matches one of the patterns, or is below such a path."""
    return any(
        # Also literally: partition values may contain characters that have a meaning in a pattern.
        f"{path}/".startswith(f"{pattern}/")
        or fnmatchcase(path, pattern)
        or fnmatchcase(path, f"{pattern}/*")
        for pattern in patterns
    )


ANY_COMMIT = When()


@dataclass(frozen=True, slots=True)
class HookRule:
    """The ordering rules of a hook: it runs after those named in `after` that the commit triggers too.

    Unless it is `concurrent`, it also runs after itself for earlier versions. If a `required` hook fails, the
    hooks of the version that are already done are undone, and the rest do not run.
    """

    name: str
    after: tuple[str, ...] = ()
    when: When = ANY_COMMIT
    concurrent: bool = False
    required: bool = False


def kinds_of(record: Record) -> frozenset[str]:
    """All kinds of a commit, as in `When.kinds`."""
    return frozenset({record.kind}).union(*(kinds for _, kinds in _kinds_by_table(record)))


def _kinds_by_table(record: Record) -> list[tuple[tuple[str, ...], frozenset[str]]]:
    tables = [(_names(table), table.verbs | {table.action.value, record.kind}) for table in record.tables]
    objects = [(_names(each), frozenset({each.action.value, record.kind})) for each in record.objects]
    return tables + objects


def _names(change: TableCommit | ObjectCommit) -> tuple[str, ...]:
    return (change.name,) if change.renamed_from is None else (change.name, change.renamed_from)


def in_order(rules: Sequence[HookRule]) -> tuple[HookRule, ...]:
    """The rules, each after those that it names in `after`; otherwise in the given order.

    Raises `InvalidInputError` for an invalid, duplicate or unknown name, and for a cycle.
    """
    known: dict[str, HookRule] = {}
    for rule in rules:
        if not isinstance(rule.name, str) or not _NAME.fullmatch(rule.name):
            raise InvalidInputError(
                f"{shown(rule.name)} is not a valid hook name", "use letters, digits, '_', '-' and '.'"
            )
        refuse_credential("the name of a hook", rule.name)
        if rule.name in known:
            raise InvalidInputError(f"two hooks have the name {rule.name}", "rename one of them")
        known[rule.name] = rule
    for rule in rules:
        for name in rule.after:
            if name not in known:
                step = nearest(name, known) or f"hooks: {', '.join(known)}"
                raise InvalidInputError(f"hook {rule.name} must run after {name}, which is not a hook", step)
    return tuple(known[name] for name in _sorted(known))


def _sorted(known: Mapping[str, HookRule]) -> list[str]:
    sorter = TopologicalSorter({name: rule.after for name, rule in known.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        raise InvalidInputError(
            f"hooks wait for each other: {' -> '.join(reversed(circle))}",
            "remove one name from their `after`",
        ) from None
    places = {name: place for place, name in enumerate(known)}
    done: list[str] = []
    ready = sorted(sorter.get_ready(), key=places.__getitem__)
    while ready:
        # One at a time, so that hooks without an order between them stay in the given order.
        done.append(ready.pop(0))
        sorter.done(done[-1])
        ready = sorted([*ready, *sorter.get_ready()], key=places.__getitem__)
    return done


def due(rules: Sequence[HookRule], record: Record) -> tuple[str, ...]:
    """The names of the hooks that a commit triggers, in order."""
    return tuple(rule.name for rule in rules if rule.when.holds(record))


def held_up_by(rule: HookRule, runs: Mapping[str, HookRun]) -> tuple[str, ...]:
    """The hooks of the same version that must run first and are not done."""
    return tuple(name for name in rule.after if name in runs and not runs[name].is_in_effect)


def failed_required(rules: Sequence[HookRule], runs: Iterable[HookRun]) -> str | None:
    """The first required hook that has failed for a version; None if there is none."""
    failed = {run.name for run in runs if run.state is HookState.FAILED}
    return next((rule.name for rule in rules if rule.required and rule.name in failed), None)


def awaits_turn(name: str, rules: Sequence[HookRule], runs: Sequence[HookRun]) -> bool:
    """Whether a hook of a version must still run, so that later versions wait for it.

    Later versions do not wait for a hook that has failed, that must run after a failed one, or that does not
    run because a required one failed: such hooks run only when a user asks for it.
    """
    if failed_required(rules, runs) is not None:
        return False
    states = {run.name: run.state for run in runs}
    after = {rule.name: rule.after for rule in rules}

    def is_stuck(other: str) -> bool:
        state = states.get(other)
        return state is HookState.FAILED or (state is HookState.PENDING and is_held_up(other))

    def is_held_up(other: str) -> bool:
        return any(is_stuck(first) for first in after.get(other, ()))

    return states.get(name) is HookState.PENDING and not is_held_up(name)
