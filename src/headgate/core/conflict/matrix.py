"""The conflict matrix: what happens when a transaction overlaps with one that was committed since it began.

A is the transaction that is about to commit, B the other one. Each row says what A does, what B did, when the
two overlap, and the verdict at each isolation. If they do not overlap, the row does not apply.
`docs/conflicts.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headgate.core.conflict import rules
from headgate.core.conflict.footprint import Footprint
from headgate.core.conflict.isolation import Isolation
from headgate.core.conflict.meeting import Meeting
from headgate.core.conflict.overlooked import Overlooked
from headgate.model.record import Record


class Verdict(Enum):
    """The verdict if two transactions overlap; the value is what the page shows."""

    OK = "OK"
    """A commits on top of B."""
    EARLIER = "the earlier result"
    """A returns what was committed before, and writes nothing."""
    CANCELS = "OK, cancels the plan"
    """A commits, and its record cancels B."""
    AS_B = "as for B"
    """The rows above apply, as to any other B."""
    CARRY = "rebase, else FAIL"
    """A commits if the positions of its rows can be rebased onto the files that contain the rows now."""
    FAIL = "FAIL"
    """A does not commit."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdict at each isolation."""

    snapshot: Verdict
    write_serializable: Verdict
    serializable: Verdict

    def at(self, isolation: Isolation) -> Verdict:
        return {
            Isolation.SNAPSHOT: self.snapshot,
            Isolation.WRITE_SERIALIZABLE: self.write_serializable,
            Isolation.SERIALIZABLE: self.serializable,
        }[isolation]


def _always(verdict: Verdict) -> Verdicts:
    return Verdicts(verdict, verdict, verdict)


NEVER_A_CONFLICT = _always(Verdict.OK)
ALWAYS_FAILS = _always(Verdict.FAIL)
FROM_SERIALIZABLE = Verdicts(Verdict.OK, Verdict.OK, Verdict.FAIL)
FROM_WRITE_SERIALIZABLE = Verdicts(Verdict.OK, Verdict.FAIL, Verdict.FAIL)


@dataclass(frozen=True, slots=True)
class OnTable:
    """Evaluated for each table that both touched."""

    meets: Callable[[Meeting], str | None]


@dataclass(frozen=True, slots=True)
class OnRecord:
    """Evaluated for the two transactions as a whole."""

    meets: Callable[[Footprint, Record], str | None]


@dataclass(frozen=True, slots=True)
class OnHistory:
    """Evaluated for each table that A read, with the commits between A's base and B."""

    meets: Callable[[Overlooked], str | None]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Checked before the rules are evaluated: `place` says where."""

    place: str


Rule: TypeAlias = OnTable | OnRecord | OnHistory | Elsewhere


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the matrix.

    `mine` is what A does, `theirs` what B did, `when` the condition. `rules` find whether they overlap; rows
    whose verdict is always OK need none. `otherwise` is the verdict if the condition does not hold, where
    that is more than "no conflict". `give_up`: a retry of A does not help; it says what to do instead.
    """

    number: int
    mine: str
    theirs: str
    when: str
    verdicts: Verdicts
    rules: tuple[Rule, ...] = ()
    otherwise: str = ""
    give_up: str = ""

    @property
    def name(self) -> str:
        return self.mine if self.mine == self.theirs else f"{self.mine} against {self.theirs}"


MATRIX: tuple[Row, ...] = (
    Row(
        1,
        "append",
        "append, update, delete, merge, compaction, overwrite of all rows",
        "any",
        NEVER_A_CONFLICT,
    ),
    Row(2, "append", "schema change", "the new files still match the schema", NEVER_A_CONFLICT),
    Row(
        3,
        "append",
        "schema change",
        "the new files have values for a column that was dropped",
        ALWAYS_FAILS,
        (OnTable(rules.written_column_dropped),),
    ),
    Row(
        4,
        "batch of an application",
        "batch of the same application",
        "B's batch number is greater than or equal to A's",
        _always(Verdict.EARLIER),
        (Elsewhere("by `Transaction.committed_before`"),),
    ),
    Row(
        5,
        "insert from a query",
        "append to the table that A read",
        "B added rows that the query selects",
        FROM_SERIALIZABLE,
        (OnTable(rules.query_and_append),),
    ),
    Row(
        6,
        "insert from a query",
        "update, delete, merge, overwrite, insert from a query, of the table that A read",
        "B added rows that the query selects, or changed files that A read",
        FROM_WRITE_SERIALIZABLE,
        (OnTable(rules.query_and_change),),
    ),
    Row(7, "any reader of files", "compaction of those files", "rows are only moved", NEVER_A_CONFLICT),
    Row(
        8,
        "update, delete, merge",
        "append",
        "B added rows that A's predicate selects",
        FROM_SERIALIZABLE,
        (OnTable(rules.change_and_append),),
    ),
    Row(
        9,
        "copy-on-write change",
        "copy-on-write change",
        "the same file",
        ALWAYS_FAILS,
        (OnTable(rules.same_file_replaced),),
    ),
    Row(
        10,
        "update, delete, merge",
        "update, delete, merge, overwrite, insert from a query",
        "B added rows that A's predicate selects",
        FROM_WRITE_SERIALIZABLE,
        (OnTable(rules.change_and_matching_change),),
    ),
    Row(
        11,
        "update, delete, merge",
        "update, delete, merge, overwrite",
        "partitions or column bounds are disjoint",
        NEVER_A_CONFLICT,
    ),
    Row(
        12,
        "update, delete, merge",
        "update, delete, merge, overwrite",
        "B removed a file that A read and does not change; or B changed rows in a file that A read, and A is "
        "a merge that inserts rows and does not update every row that it matches",
        FROM_WRITE_SERIALIZABLE,
        (OnTable(rules.change_and_removal),),
    ),
    Row(
        13,
        "copy-on-write change of F (or row change on F)",
        "compaction of F or row change on F (or copy-on-write change of F)",
        "the same file",
        ALWAYS_FAILS,
        (OnTable(rules.replaced_file_and_its_rows),),
    ),
    Row(
        14,
        "update, delete, merge, overwrite of some rows",
        "overwrite of all rows",
        "the same table",
        ALWAYS_FAILS,
        (OnTable(rules.change_and_replacement),),
    ),
    Row(15, "row delete", "row delete", "the same file, different rows", NEVER_A_CONFLICT),
    Row(
        16,
        "row delete",
        "row delete",
        "the same rows",
        FROM_SERIALIZABLE,
        (OnTable(rules.both_delete_rows),),
    ),
    Row(
        17,
        "row update",
        "row delete or row update",
        "the same row",
        ALWAYS_FAILS,
        (OnTable(rules.updated_row_is_changed),),
    ),
    Row(
        18,
        "row delete",
        "row update",
        "the same row",
        ALWAYS_FAILS,
        (OnTable(rules.deleted_row_is_updated),),
    ),
    Row(
        19,
        "row delete or row update on F",
        "compaction of F",
        "the same file",
        _always(Verdict.CARRY),
        (OnTable(rules.changed_rows_are_moved),),
    ),
    Row(20, "row delete on F", "delete of all rows of F", "the same file", NEVER_A_CONFLICT),
    Row(
        21,
        "row update on F",
        "delete or overwrite of all rows of F",
        "the same file",
        ALWAYS_FAILS,
        (OnTable(rules.updated_file_is_gone),),
    ),
    Row(22, "compaction", "append", "any", NEVER_A_CONFLICT),
    Row(
        23,
        "compaction of F",
        "copy-on-write change, overwrite, compaction of F",
        "the same file",
        ALWAYS_FAILS,
        (OnTable(rules.compacted_file_is_replaced), OnRecord(rules.planned_file_is_gone)),
    ),
    Row(
        24,
        "compaction of F",
        "row delete or row update on F",
        "the same file",
        _always(Verdict.CARRY),
        (OnTable(rules.compacted_file_lost_rows),),
    ),
    Row(
        25,
        "overwrite where p",
        "append",
        "B added rows that p selects",
        FROM_SERIALIZABLE,
        (OnTable(rules.overwrite_and_append),),
    ),
    Row(
        26,
        "overwrite where p, overwrite of all rows",
        "update, delete, merge",
        "B changed rows that p selects",
        ALWAYS_FAILS,
        (OnTable(rules.overwrite_and_change),),
    ),
    Row(
        27,
        "overwrite where p, overwrite of all rows",
        "overwrite where q, overwrite of all rows",
        "p and q overlap",
        ALWAYS_FAILS,
        (OnTable(rules.overwrite_and_overwrite),),
    ),
    Row(
        28,
        "overwrite of all rows",
        "append",
        "any",
        FROM_SERIALIZABLE,
        (OnTable(rules.replacement_and_append),),
    ),
    Row(
        29,
        "schema change",
        "schema change",
        "any",
        ALWAYS_FAILS,
        (OnTable(rules.both_change_structure),),
    ),
    # There is no row 30. It was about a column that becomes required or gets a narrower type, which Iceberg
    # does not allow and no operation does. The other rows keep their numbers, because logs contain them.
    Row(
        31,
        "change of properties, tags or the strategy",
        "change of properties, tags or the strategy",
        "the same name",
        ALWAYS_FAILS,
        (
            OnRecord(rules.same_lake_property),
            OnTable(rules.same_table_property),
            OnRecord(rules.same_tag),
            OnRecord(rules.same_strategy),
        ),
    ),
    Row(
        32,
        "change of rows",
        "pending clustering of the same files",
        "`clustering.allow_updates` is `false`",
        ALWAYS_FAILS,
        (Elsewhere("against the pending plans in the lake's state"),),
        otherwise=Verdict.CANCELS.value,
    ),
    Row(
        33,
        "change of rows",
        "pending compaction of the same files",
        "`conflict.compaction` is `strict`",
        ALWAYS_FAILS,
        (Elsewhere("against the pending plans in the lake's state"),),
        otherwise="OK, the compaction is rebased",
    ),
    Row(
        34,
        "clustering",
        "running change of rows on the same paths",
        "`clustering.allow_updates` is `true`",
        ALWAYS_FAILS,
        (Elsewhere("against the announcements of running transactions"),),
    ),
    Row(
        35,
        "any",
        "a commit that was pending when A began, and completed before A commits",
        "the two overlap",
        _always(Verdict.AS_B),
        (Elsewhere("when the candidates are selected"),),
    ),
    Row(
        36,
        "any",
        "record that cancels A (or A cancels B, which is committed already)",
        "the same transaction",
        ALWAYS_FAILS,
        (OnRecord(rules.cancelled), OnRecord(rules.too_late_to_cancel)),
        give_up="do the work in a new transaction, if it is still needed",
    ),
    Row(
        37,
        "upsert by key",
        "upsert by key",
        "the same partition and bucket, and overlapping key bounds",
        ALWAYS_FAILS,
        (OnTable(rules.same_keys),),
    ),
    Row(38, "upsert by key", "upsert by key", "another bucket, or disjoint key bounds", NEVER_A_CONFLICT),
    Row(
        39,
        "retry after an unknown outcome",
        "A itself",
        "the same transaction",
        _always(Verdict.EARLIER),
        (Elsewhere("by `Transaction.commit`"),),
    ),
    Row(
        40,
        "new table, view or mount t",
        "new table, view or mount t",
        "the same name",
        ALWAYS_FAILS,
        (OnRecord(rules.same_name),),
        give_up="choose another name, or use the existing object",
    ),
    Row(
        41,
        "anything on t",
        "t was dropped, renamed, or replaced by another table",
        "the same table",
        ALWAYS_FAILS,
        (OnTable(rules.table_gone),),
        give_up="find out what happened to the table, then begin a new transaction",
    ),
    Row(
        42,
        "replace, rename, drop or read view or mount v",
        "v was created, replaced, renamed or dropped",
        "the same view or mount",
        ALWAYS_FAILS,
        (OnRecord(rules.same_object),),
    ),
    Row(
        43,
        "expire",
        "expire, or a tag of a version that A expires",
        "any",
        ALWAYS_FAILS,
        (OnRecord(rules.expired_by_both), OnRecord(rules.expires_a_new_tag)),
    ),
    Row(
        44,
        "tag of a version",
        "expire",
        "B did not keep the version for a tag",
        ALWAYS_FAILS,
        (OnRecord(rules.tags_what_is_expired),),
    ),
    Row(
        45,
        "row delete on F",
        "overwrite of all rows of F",
        "the same file",
        ALWAYS_FAILS,
        (OnTable(rules.deleted_row_is_overwritten),),
    ),
    Row(
        46,
        "update, delete, merge, overwrite, insert from a query",
        "change of the columns, or, for an overwrite of partitions, of the partition spec",
        "the table that A read or changes",
        FROM_WRITE_SERIALIZABLE,
        (OnTable(rules.structure_is_changed),),
    ),
    Row(
        47,
        "overwrite where p, overwrite of all rows",
        "insert from a query",
        "B added rows that p selects",
        FROM_WRITE_SERIALIZABLE,
        (OnTable(rules.overwrite_and_insert),),
    ),
    Row(
        48,
        "update, delete, merge, overwrite, insert from a query",
        "any commit that must come after an append that was committed after A began: it read rows of the "
        "append, or dropped, renamed or changed the columns of a table of it, or is a later batch of its "
        "application",
        "the append added rows that A's predicate selects, in the same table or in another one",
        FROM_WRITE_SERIALIZABLE,
        (OnHistory(rules.needed_by_another),),
    ),
    Row(
        49,
        "update, delete, merge, overwrite, insert from a query; and drop, rename or change of the columns, "
        "or a batch of an application",
        "append",
        "B added rows that A's predicate selects; and B appended to the table that A drops, renames or "
        "changes, which may be another one, or B is an earlier batch of A's application",
        FROM_WRITE_SERIALIZABLE,
        (OnTable(rules.append_cannot_follow),),
    ),
)
