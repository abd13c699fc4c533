"""Settings: properties of lakes and tables, settings of Spark, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headgate.core.isolation import Isolation
from headgate.core.refresh_plan import REFRESHED_AT, VIEW_SQL
from headgate.core.settings import DELTAS, OF_LAKES, OF_TABLES, Quantity, Setting
from headgate.iceberg.rolling import TARGET_SIZE
from headgate.reading import ISOLATION
from headgate.spark.session import DEFAULTS, REQUIRED
from headgate.steward.hooks.nesting import VARIABLE
from scripts.reference.markdown import code, page, table

INTRODUCTION = """
Properties are texts. Those of a lake are set with `lake.set_properties({…})`, those of a table with
`create_table(…, properties={…})` and `table.set_properties({…})`; other names than these are yours, and
are kept as they are. A value that a property cannot have is refused, when it is set or when it is used.
"""
_MODE = "`merge-on-read`, `copy-on-write`"
_ROWS = "how {} changes rows: marked in delete files, or files written anew; [row changes](../row-changes.md)"

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "conflict.candidates": "how commits to be compared with are collected; the verdicts are the same, "
        "`start` "
        "costs one LIST at the beginning",
        "conflict.early": "before an overwrite writes its rows, it is compared with the newest version and "
        "with "
        "what others announce, so that a doomed job ends in seconds",
        "conflict.compaction": "whether changes of files that are about to be compacted are refused "
        "(`strict`)",
        "clustering.allow_updates": "whether changes of files that are about to be clustered are refused, "
        "or win "
        "and cancel the clustering",
        "compaction.min_inputs": "from how many small segments on a window of a path is compacted; "
        "[compaction](../compaction.md)",
        "compaction.delete_share": "beyond which share of deleted rows files are written anew",
        DELTAS.name: "whether files that are written through Arrow may tell whole numbers and moments by "
        "differences (DELTA_BINARY_PACKED), which are shorter and faster to read; `false` for readers that "
        "do not know them, such as Iceberg on Spark before 1.10",
        TARGET_SIZE: "how large data files should become; smaller ones are compacted",
    }
)
"""What the settings of `core.settings` mean. One without a meaning fails the build."""

OTHERS_OF_TABLES: tuple[tuple[str, str, str, str], ...] = (
    (
        ISOLATION,
        ", ".join(f"`{one.value}`" for one in Isolation),
        f"`{Isolation.WRITE_SERIALIZABLE.value}`",
        "what a commit can rely on; [conflicts](../conflicts.md)",
    ),
    ("write.delete.mode", _MODE, "`merge-on-read`", _ROWS.format("`delete`")),
    ("write.update.mode", _MODE, "`merge-on-read`", _ROWS.format("`update`")),
    ("write.merge.mode", _MODE, "`merge-on-read`", _ROWS.format("`merge` and `upsert`")),
    (
        "write.distribution-mode",
        "`none`, `hash`, `range`",
        "`hash` if partitioned, else `range` if sorted, else `none`",
        "how Spark spreads rows over tasks before they are written; `write.distribution` is taken too",
    ),
    (
        "write.parquet.compression-codec",
        "`none`, `snappy`, `gzip`, `brotli`, `lz4`, `zstd`",
        "`zstd`",
        "how data files are compressed",
    ),
    (
        "write.metadata.metrics.default, write.metadata.metrics.column.NAME",
        "`none`, `counts`, `truncate(n)`, `full`",
        "`truncate(16)`",
        "how much manifests tell of columns",
    ),
    (VIEW_SQL, "a query", "", "makes the table a materialized view; set by Headgate"),
    (REFRESHED_AT, "a version", "", "of which version its rows are the result; set by Headgate"),
)

SPARK: tuple[tuple[str, str, str], ...] = (
    (
        "spark.headgate.files",
        "`auto`",
        "`auto`, `native` or `arrow`: which way data moves; [Spark](../spark.md)",
    ),
)

ENVIRONMENT: tuple[tuple[str, str], ...] = (
    (
        "HEADGATE_CONFIG",
        "the `headgate.toml` that commands take their hooks from, if `--config` is not given",
    ),
    ("NO_COLOR, FORCE_COLOR, TERM", "whether a terminal gets colours, as everywhere"),
    ("JAVA_HOME", "where Java is, for what needs Spark"),
    ("PYSPARK_PYTHON", "the Python of executors; on this machine it is the one that runs, if it is not set"),
    (
        "AWS_…, GOOGLE_…, AZURE_…",
        "credentials, region and endpoint of object storage; [storage](../storage.md)",
    ),
    (VARIABLE, "set by Headgate for programs that hooks start, so that they do not start themselves again"),
)


def settings_page() -> str:
    lakes = [(code(one.name), _values(one), _usual(one), MEANINGS[one.name]) for one in OF_LAKES]
    overruling = [
        (code(one.name), _values(one), _usual_of_table(one), MEANINGS[one.name]) for one in OF_TABLES
    ]
    others = [(_names(name), *rest) for name, *rest in OTHERS_OF_TABLES]
    head = ("property", "values", "usually", "")
    required = [(code(name), code(value)) for name, value in REQUIRED.items()]
    usual = [(code(name), code(_portable(value))) for name, value in DEFAULTS.items()]
    return page(
        "Settings",
        INTRODUCTION,
        "## Of lakes",
        table(head, lakes),
        "## Of tables",
        table(head, others),
        "These are checked when they are set; what the lake has too, the table decides:",
        table(head, overruling),
        "## Of Spark sessions",
        table(("setting", "usually", ""), [(code(name), *rest) for name, *rest in SPARK]),
        "Set on every session that is given to Headgate:",
        table(("setting", "value"), required),
        "Set by `hg.session()`, unless you say otherwise:",
        table(("setting", "value"), usual),
        "## Of the environment",
        table(("variable", ""), [(_names(name), meaning) for name, meaning in ENVIRONMENT]),
    )


def _values(setting: Setting | Quantity) -> str:
    return ", ".join(map(code, setting.values)) if isinstance(setting, Setting) else setting.choice


def _usual(setting: Setting | Quantity) -> str:
    if isinstance(setting, Setting):
        return code(setting.values[0])
    return "the divisor of the lake" if setting.usual is None else code(f"{setting.usual:.12g}")


def _usual_of_table(setting: Setting | Quantity) -> str:
    return "that of the lake" if setting in OF_LAKES else _usual(setting)


def _names(text: str) -> str:
    return ", ".join(map(code, text.split(", ")))


def _portable(value: str) -> str:
    """A path of this machine is not part of a value."""
    before, scheme, path = value.partition("file://")
    return f"{before}…/{path.rsplit('/', 1)[-1]}" if scheme else value
