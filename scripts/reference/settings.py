"""Settings: properties of lakes and tables, settings of Spark, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headgate.arrow.data_files import TARGET_SIZE
from headgate.core.conflict.isolation import ISOLATION, Isolation
from headgate.core.input.settings import DELTAS, FOLLOW_UP, OF_LAKES, OF_TABLES, Quantity, Setting
from headgate.core.plans.refresh import REFRESHED_AT, VIEW_SQL
from headgate.spark.session import DEFAULTS, REQUIRED
from headgate.steward.hooks.nesting import VARIABLE
from headgate.storage import mount_roots
from scripts.reference.markdown import code, page, table

INTRODUCTION = """
This page lists the properties of lakes and tables, the settings of Spark sessions, and the environment
variables that Headgate reads. The values of properties are strings. Set properties of a lake with
`lake.set_properties({…})`, and properties of a table with `create_table(…, properties={…})` and
`table.set_properties({…})`. You can also use names of your own; Headgate stores them unchanged. Values that
are not allowed are rejected, either when you set them or when they are used.
"""
_MODE = "`merge-on-read`, `copy-on-write`"
_ROWS = "whether {} marks rows in delete files or rewrites their files; [row changes](../row-changes.md)"

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "conflict.candidates": "how the commits to compare with are collected; the verdicts are the same, "
        "`start` costs one LIST at the beginning",
        "conflict.early": "before an operation writes its rows, it is compared with the newest version and "
        "with what other writers announce, so that a job that cannot succeed ends in seconds",
        FOLLOW_UP.name: "whether a commit returns after its tables are published and its control entry is "
        "written (`inline`), or before, while a thread does this (`background`); "
        "[what follows a commit](../how-a-commit-works.md#what-follows-a-commit)",
        "conflict.compaction": "whether changes to files that are about to be compacted are rejected "
        "(`strict`)",
        "clustering.allow_updates": "whether changes to files that are about to be clustered are rejected, "
        "or win and cancel the clustering",
        "compaction.min_inputs": "the number of small segments from which a window of a path is compacted; "
        "[compaction](../compaction.md)",
        "compaction.delete_share": "the share of deleted rows above which files are rewritten",
        DELTAS.name: "whether files that are written through Arrow may store integers and timestamps as "
        "differences (DELTA_BINARY_PACKED), which are shorter and faster to read. Off, because Iceberg on "
        "Spark before 1.10 cannot read them with its vectorized reader; "
        "[which readers can](../design/0018-how-columns-are-encoded.md)",
        TARGET_SIZE: "the target size of data files; smaller ones are compacted",
    }
)
"""The meanings of the settings in `core.input.settings`. A setting without a meaning fails the build."""

OTHERS_OF_TABLES: tuple[tuple[str, str, str, str], ...] = (
    (
        ISOLATION,
        ", ".join(f"`{one.value}`" for one in Isolation),
        f"`{Isolation.WRITE_SERIALIZABLE.value}`",
        "what a commit can rely on; [conflicts](../conflicts.md)",
    ),
    ("write.delete.mode", _MODE, "`merge-on-read`", _ROWS.format("a `delete`")),
    ("write.update.mode", _MODE, "`merge-on-read`", _ROWS.format("an `update`")),
    ("write.merge.mode", _MODE, "`merge-on-read`", _ROWS.format("a `merge` or `upsert`")),
    (
        "write.distribution-mode",
        "`none`, `hash`, `range`",
        "`hash` if partitioned, else `range` if sorted, else `none`",
        "how Spark distributes rows to tasks before it writes them; `write.distribution` is accepted too",
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
        "how detailed the column metrics in manifests are",
    ),
    (VIEW_SQL, "a query", "", "makes the table a materialized view; set by Headgate"),
    (REFRESHED_AT, "a version", "", "the version that its rows were computed from; set by Headgate"),
)

SPARK: tuple[tuple[str, str, str], ...] = (
    (
        "spark.headgate.files",
        "`auto`",
        "`auto`, `native` or `arrow`: how data files are read and written; [Spark](../spark.md)",
    ),
)

ENVIRONMENT: tuple[tuple[str, str], ...] = (
    (
        "HEADGATE_CONFIG",
        "the `headgate.toml` that commands take their hooks from, if `--config` is not given",
    ),
    (
        mount_roots.VARIABLE,
        "directories that mounts can be read from, separated by `:`; "
        "[mounts](../views.md#whose-files-a-mount-reads)",
    ),
    ("NO_COLOR, FORCE_COLOR, TERM", "whether terminal output has colours, as usual"),
    ("JAVA_HOME", "the location of Java, for everything that needs Spark"),
    ("PYSPARK_PYTHON", "the Python of executors; on this machine, the default is the running Python"),
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
    head = ("property", "values", "default", "meaning")
    required = [(code(name), code(value)) for name, value in REQUIRED.items()]
    usual = [(code(name), code(_portable(value))) for name, value in DEFAULTS.items()]
    return page(
        "Settings",
        INTRODUCTION,
        "## Lake properties",
        table(head, lakes),
        "## Table properties",
        table(head, others),
        "The next properties are checked when you set them. If the lake has the same property, the value of "
        "the table takes precedence:",
        table(head, overruling),
        "## Spark settings",
        table(("setting", "default", "meaning"), [(code(name), *rest) for name, *rest in SPARK]),
        "Headgate sets these on every session that it uses:",
        table(("setting", "value"), required),
        "`hg.session()` sets these, unless you pass other values:",
        table(("setting", "value"), usual),
        "## Environment variables",
        table(("variable", "meaning"), [(_names(name), meaning) for name, meaning in ENVIRONMENT]),
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
    """The value without paths of this machine."""
    before, scheme, path = value.partition("file://")
    return f"{before}…/{path.rsplit('/', 1)[-1]}" if scheme else value
