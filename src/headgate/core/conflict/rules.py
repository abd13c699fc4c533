"""The rules behind the rows of the conflict matrix: each finds whether two transactions overlap.

A rule returns the reason in plain words, or None if they do not overlap. The verdict of the row says what
follows. In the reasons, "it" is the other transaction.
"""

from __future__ import annotations

from headgate.core.conflict.footprint import Footprint
from headgate.core.conflict.meeting import Meeting
from headgate.core.conflict.overlooked import Overlooked
from headgate.model.named_object import ObjectAction
from headgate.model.record import Record
from headgate.model.table import StructurePart, TableAction

# --- rows that were read -----------------------------------------------------------------------------------


def query_and_append(at: Meeting) -> str | None:
    """Row 5."""
    if not at.appended:
        return None
    return _added_rows(at.added_inside(read.selection for read in at.mine.reads), "you read")


def query_and_change(at: Meeting) -> str | None:
    """Row 6. An overwrite counts as a change too: what was read is no longer true."""
    if not at.changed:
        return None
    files = at.files
    read = at.read_of(at.mine.reads, files.removed, files.rewritten, files.deleted, files.updated)
    if read is not None:
        return f"it changed rows in files that you read: {read}"
    return _added_rows(at.added_inside(read.selection for read in at.mine.reads), "you read")


def change_and_append(at: Meeting) -> str | None:
    """Row 8."""
    return _added_rows(_added_where_sought(at), "you change") if at.appended else None


def change_and_matching_change(at: Meeting) -> str | None:
    """Row 10."""
    return _added_rows(_added_where_sought(at), "you change") if at.changed else None


def change_and_removal(at: Meeting) -> str | None:
    """Row 12. Other rows handle files that we change ourselves, unless all their rows are decisive."""
    if not at.changed or at.replaced_all:
        return None
    own, files = at.mine.replaced | at.mine.row_files, at.files
    read = at.read_of(at.mine.sought, files.removed, files.rewritten, except_for=own)
    if read is not None:
        return f"it removed files that you read: {read}"
    decisive = [read for read in at.mine.sought if read.decisive]
    found = at.read_of(decisive, files.removed, files.rewritten, files.deleted, files.updated)
    return None if found is None else f"it changed rows of files that decide what you insert: {found}"


def needed_by_another(at: Overlooked) -> str | None:
    """Row 48."""
    return at.needed()


def append_cannot_follow(at: Meeting) -> str | None:
    """Row 49. The append moves as a whole: we may have missed its rows in another table than we bar."""
    barred = next(at.appended_where_barred, None)
    why = None if barred is None else f"it also appended to {barred}, which you drop, rename or change"
    if why is None and at.appended and at.is_earlier_batch:
        why = f"it is an earlier batch of {at.app}, which would be skipped there"
    files = None if why is None else at.added_inside(at.mine.selections)
    if files is None:
        return None
    return f"it added rows that you would have read, and cannot be ordered after you, because {why}: {files}"


def _added_where_sought(at: Meeting) -> str | None:
    return at.added_inside(read.selection for read in at.mine.sought)


def _added_rows(files: str | None, doing: str) -> str | None:
    return None if files is None else f"it added rows where {doing}: {files}"


# --- files that were changed -------------------------------------------------------------------------------


def same_file_replaced(at: Meeting) -> str | None:
    """Row 9."""
    if not at.changed or at.mine.overwritten:
        return None
    files = at.named(at.mine.replaced, at.files.removed, at.files.rewritten)
    return None if files is None else f"both replaced {files}"


def replaced_file_and_its_rows(at: Meeting) -> str | None:
    """Row 13, in both directions: rows of a file are named by position, and the file is rewritten."""
    moved = at.named(at.mine.replaced, at.files.compacted)
    if moved is not None:
        return f"it compacted files that you replace: {moved}"
    rewritten = at.named(at.mine.row_files, at.files.rewritten)
    if rewritten is not None:
        return f"it rewrote files in which you change rows: {rewritten}"
    changed = None if at.mine.overwritten else at.named(at.mine.replaced, at.files.deleted, at.files.updated)
    return None if changed is None else f"it changed rows of files that you replace: {changed}"


def change_and_replacement(at: Meeting) -> str | None:
    """Row 14."""
    if at.replaced_all and at.mine.changes_rows and not at.mine.replaces_all:
        return "it replaced all rows"
    return None


def both_delete_rows(at: Meeting) -> str | None:
    """Row 16."""
    rows = at.same_rows(at.mine.deleted, deleted=True, updated=False)
    return None if rows is None else f"both deleted {rows}"


def updated_row_is_changed(at: Meeting) -> str | None:
    """Row 17."""
    rows = at.same_rows(at.mine.updated, deleted=True, updated=True)
    return None if rows is None else f"both changed {rows}"


def deleted_row_is_updated(at: Meeting) -> str | None:
    """Row 18: without it, the updated row would survive the delete."""
    rows = at.same_rows(at.mine.deleted, deleted=False, updated=True)
    return None if rows is None else f"it updated rows that you delete: {rows}"


def changed_rows_are_moved(at: Meeting) -> str | None:
    """Row 19."""
    files = at.named(at.mine.row_files, at.files.compacted)
    return None if files is None else f"it compacted files in which you change rows: {files}"


def updated_file_is_gone(at: Meeting) -> str | None:
    """Row 21."""
    files = at.named(at.mine.updated, at.files.removed)
    return None if files is None else f"it removed files in which you update rows: {files}"


def deleted_row_is_overwritten(at: Meeting) -> str | None:
    """Row 45: the row may be there again. Row 14 handles the replacement of all rows."""
    files = None if at.replaced_all else at.named(at.mine.deleted, at.files.overwritten)
    return None if files is None else f"it overwrote files in which you delete rows: {files}"


# --- compaction --------------------------------------------------------------------------------------------


def compacted_file_is_replaced(at: Meeting) -> str | None:
    """Row 23."""
    theirs = at.files
    files = at.named(at.mine.compacted, theirs.removed, theirs.rewritten, theirs.compacted)
    return None if files is None else f"it replaced files that you compact: {files}"


def planned_file_is_gone(ours: Footprint, other: Record) -> str | None:
    """Row 23, for the plan of a table service: it could never be completed."""
    plan = ours.plan
    if plan is None or plan.inputs is None:
        return None
    gone = set[str]()
    for commit in other.tables:
        if commit.table.uuid == plan.table and commit.footprint is not None:
            files = commit.footprint
            for marks in (files.removed, files.rewritten, files.compacted):
                gone |= plan.inputs if marks is None else plan.inputs & marks
    return f"it replaced {len(gone)} of the files that you plan to rewrite" if gone else None


def compacted_file_lost_rows(at: Meeting) -> str | None:
    """Row 24."""
    files = at.named(at.mine.compacted, at.files.deleted, at.files.updated)
    return None if files is None else f"it changed rows of files that you compact: {files}"


# --- overwrites --------------------------------------------------------------------------------------------


def overwrite_and_append(at: Meeting) -> str | None:
    """Row 25."""
    if not at.appended or at.mine.replaces_all:
        return None
    return _added_rows(at.added_inside(at.mine.overwrites), "you overwrite")


def overwrite_and_change(at: Meeting) -> str | None:
    """Row 26."""
    return _inside_overwritten(at) if at.changed_otherwise and not at.replaced_all else None


def overwrite_and_overwrite(at: Meeting) -> str | None:
    """Row 27. Row 14 handles a replacement of all rows before us, unless we replace all rows too."""
    if at.replaced_all:
        return "both replaced all rows" if at.mine.replaces_all else None
    return _inside_overwritten(at) if at.overwrote else None


def replacement_and_append(at: Meeting) -> str | None:
    """Row 28."""
    return "it added rows, and you replace all of them" if at.mine.replaces_all and at.appended else None


def overwrite_and_insert(at: Meeting) -> str | None:
    """Row 47: what it inserted depends on what it read, so it cannot be ordered after us."""
    return _added_rows(at.added_inside(at.mine.overwritten), "you overwrite") if at.inserted else None


def _inside_overwritten(at: Meeting) -> str | None:
    overwritten, theirs = at.mine.overwritten, at.files
    if not overwritten:
        return None
    files = at.named(at.mine.replaced, theirs.removed, theirs.rewritten, theirs.deleted, theirs.updated)
    if files is not None:
        return f"both changed rows of the same files: {files}"
    return _added_rows(at.added_inside(overwritten), "you overwrite")


# --- keys --------------------------------------------------------------------------------------------------


def same_keys(at: Meeting) -> str | None:
    """Row 37."""
    keys = at.same_keys()
    return None if keys is None else f"both upserted {keys}"


# --- structure and properties ------------------------------------------------------------------------------


def written_column_dropped(at: Meeting) -> str | None:
    """Row 3."""
    lost = sorted(at.mine.written_fields & at.theirs.dropped_fields)
    ids = ", ".join(map(str, lost))
    return f"it dropped columns that your rows have values for (field ids {ids})" if lost else None


def both_change_structure(at: Meeting) -> str | None:
    """Row 29."""
    if not at.mine.structure or not at.theirs.structure:
        return None
    return f"both changed the schema; it changed: {', '.join(sorted(at.theirs.structure))}"


def structure_is_changed(at: Meeting) -> str | None:
    """Row 46. A new sort order changes no row; nor does a new spec, unless the spec selects which rows go."""
    if not at.mine.reads and not at.mine.changes_rows:
        return None
    changed = at.theirs.structure - {StructurePart.SORT_ORDER.value}
    if not at.mine.relies_on_spec:
        changed -= {StructurePart.SPEC.value}
    return (
        f"it changed the schema that your work depends on: {', '.join(sorted(changed))}" if changed else None
    )


def same_table_property(at: Meeting) -> str | None:
    """Row 31."""
    names = sorted(at.mine.property_names & at.theirs.property_names)
    return f"both changed the table properties {', '.join(names)}" if names else None


def same_lake_property(ours: Footprint, other: Record) -> str | None:
    """Row 31."""
    names = sorted(ours.properties.names() & other.lake_properties.names())
    return f"both changed the lake properties {', '.join(names)}" if names else None


def expired_by_both(ours: Footprint, other: Record) -> str | None:
    """Row 43: both computed what to keep from the same state."""
    both = ours.expires is not None and other.expires is not None
    return "both expired versions of the lake" if both else None


def expires_a_new_tag(ours: Footprint, other: Record) -> str | None:
    """Row 43: a version was tagged, and is not among those that we keep for their tags."""
    if ours.expires is None:
        return None
    kept = ours.expires
    lost = sorted(v.number for v in other.tags.set.values() if v.number <= kept.until)
    return f"it tagged version {lost[0]}, which you expire" if lost else None


def tags_what_is_expired(ours: Footprint, other: Record) -> str | None:
    """Row 44.

    Boundaries are unknown without the divisor, so only versions that are named are sure to stay.
    """
    if other.expires is None:
        return None
    gone = sorted(v for v in ours.tagged if v <= other.expires.until and v not in other.expires.versions)
    return f"version {gone[0]} may have expired meanwhile" if gone else None


def same_tag(ours: Footprint, other: Record) -> str | None:
    """Row 31: a tag counts as a property of the lake that names a version."""
    names = sorted(ours.tag_names & other.tags.names())
    return f"both changed the tags {', '.join(names)}" if names else None


def same_strategy(ours: Footprint, other: Record) -> str | None:
    """Row 31: so is the commit strategy."""
    return "both changed the commit strategy" if ours.strategy_change and other.kind == "switch" else None


# --- whole transactions and tables -------------------------------------------------------------------------


def cancelled(ours: Footprint, other: Record) -> str | None:
    """Row 36."""
    return "it cancels this transaction" if ours.txid in other.cancels else None


def too_late_to_cancel(ours: Footprint, other: Record) -> str | None:
    """Row 36, in the other direction."""
    return "it is the transaction that you cancel" if other.txid in ours.cancels else None


def same_name(ours: Footprint, other: Record) -> str | None:
    """Row 40: tables, views and mounts share one namespace."""
    tables = {t.name for t in other.tables if t.action in (TableAction.CREATE, TableAction.RENAME)}
    wanted = {t.takes_name for t in ours.tables} | {o.takes_name for o in ours.objects if not o.replaces}
    replacing = {o.takes_name for o in ours.objects if o.replaces}
    met = sorted(
        name for name in tables | _named_objects(other) if name in wanted or name in replacing & tables
    )
    return f"both took the name {', '.join(met)}" if met else None


def same_object(ours: Footprint, other: Record) -> str | None:
    """Row 42."""
    changed = {commit.object.uuid for commit in other.objects}
    made = _named_objects(other)
    met = [o for o in ours.objects if o.uuid in changed or (o.replaces and o.takes_name in made)]
    if not met:
        return None
    names = ", ".join(sorted(o.name for o in met))
    return f"it changed {names}, which was read" if all(o.only_read for o in met) else f"both changed {names}"


def _named_objects(other: Record) -> set[str]:
    """The names that views and mounts got."""
    return {o.name for o in other.objects if o.action in (ObjectAction.CREATE, ObjectAction.RENAME)}


def table_gone(at: Meeting) -> str | None:
    """Row 41."""
    match at.theirs.action:
        case TableAction.DROP:
            return "it dropped the table"
        case TableAction.RENAME:
            return f"it renamed the table to {at.theirs.name}"
        case _:
            return None
