"""When hooks are due and in which order they run: decisions without any action."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter

from headgate.core.arguments import refuse_credential, texts
from headgate.core.lookup import nearest
from headgate.errors import InvalidInputError
from headgate.model.control_entry import HookRun
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
"""What a commit can be: the kinds of versions in the log, what is done to tables, what is done to rows."""


@dataclass(frozen=True, slots=True)
class When:
    """The commits that a hook is for: those that change one of `tables` (names, or patterns as `sales.*`) and
    are of one of `kinds`. Empty means any.

    Views and mounts count as tables. A kind is that of the version in the log (`commit`, `plan`, `cancel`,
    `switch`, `expire`), what was done to a table (`create`, `change`, `drop`, `rename`; `replace` for views
    and mounts) or to its rows (`append`, `overwrite`, `delete`, `update`, `merge`, `upsert`, `compact`). What
    is no kind, or no name of a table, is refused: the hook would never run, and nobody would be told.
    """

    tables: Sequence[str] = ()
    kinds: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", texts("the tables of a hook", self.tables))
        object.__setattr__(self, "kinds", texts("the kinds of a hook", self.kinds))
        for name in self.tables:
            if _WILD.isdisjoint(name):
                TableName.parse(name)
        for kind in self.kinds:
            if kind not in KINDS:
                step = nearest(kind, KINDS) or f"kinds: {', '.join(KINDS)}"
                raise InvalidInputError(f"{kind!r} is not a kind of commit", step)

    def holds(self, record: Record) -> bool:
        """Whether it holds for a commit; both conditions for the same table."""
        if not self.tables:
            return not self.kinds or bool(frozenset(self.kinds) & kinds_of(record))
        return any(
            any(fnmatchcase(name, pattern) for name in names for pattern in self.tables)
            and (not self.kinds or bool(frozenset(self.kinds) & kinds))
            for names, kinds in _kinds_by_table(record)
        )


ANY_COMMIT = When()


@dataclass(frozen=True, slots=True)
class HookRule:
    """A hook as far as its turn is concerned: it runs after those named in `after`, if they are due too."""

    name: str
    after: tuple[str, ...] = ()
    when: When = ANY_COMMIT


def kinds_of(record: Record) -> frozenset[str]:
    """Everything that a commit is, in the words of `When.kinds`."""
    return frozenset({record.kind}).union(*(kinds for _, kinds in _kinds_by_table(record)))


def _kinds_by_table(record: Record) -> list[tuple[tuple[str, ...], frozenset[str]]]:
    tables = [(_names(table), table.verbs | {table.action.value, record.kind}) for table in record.tables]
    objects = [(_names(each), frozenset({each.action.value, record.kind})) for each in record.objects]
    return tables + objects


def _names(change: TableCommit | ObjectCommit) -> tuple[str, ...]:
    return (change.name,) if change.renamed_from is None else (change.name, change.renamed_from)


def in_order(rules: Sequence[HookRule]) -> tuple[HookRule, ...]:
    """The rules, each behind those that it comes after; otherwise as they were given.

    `InvalidInputError` for a name that is bad or given twice, one that is not there, and a cycle.
    """
    known: dict[str, HookRule] = {}
    for rule in rules:
        if not isinstance(rule.name, str) or not _NAME.fullmatch(rule.name):
            raise InvalidInputError(
                f"{rule.name!r} cannot be the name of a hook", "use letters, digits, '_', '-' and '.'"
            )
        refuse_credential("the name of a hook", rule.name)
        if rule.name in known:
            raise InvalidInputError(f"two hooks are called {rule.name}", "rename one of them")
        known[rule.name] = rule
    for rule in rules:
        for name in rule.after:
            if name not in known:
                step = nearest(name, known) or f"hooks: {', '.join(known)}"
                raise InvalidInputError(f"hook {rule.name} is to run after {name}, which is no hook", step)
    return tuple(known[name] for name in _sorted(known))


def _sorted(known: Mapping[str, HookRule]) -> list[str]:
    sorter = TopologicalSorter({name: rule.after for name, rule in known.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        raise InvalidInputError(
            f"hooks wait for each other: {' -> '.join(reversed(circle))}", "take away one of their `after`"
        ) from None
    places = {name: place for place, name in enumerate(known)}
    done: list[str] = []
    ready = sorted(sorter.get_ready(), key=places.__getitem__)
    while ready:
        # One at a time, so that the order in which hooks were given decides among those that may run.
        done.append(ready.pop(0))
        sorter.done(done[-1])
        ready = sorted([*ready, *sorter.get_ready()], key=places.__getitem__)
    return done


def due(rules: Sequence[HookRule], record: Record) -> tuple[str, ...]:
    """The names of the hooks that a commit asks for, in order."""
    return tuple(rule.name for rule in rules if rule.when.holds(record))


def held_up_by(rule: HookRule, runs: Mapping[str, HookRun]) -> tuple[str, ...]:
    """The hooks that are due for the same version, come first, and are not done."""
    return tuple(name for name in rule.after if name in runs and not runs[name].state.is_over)
