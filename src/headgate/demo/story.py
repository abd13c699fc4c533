"""The story of the demonstration: a small shop on a lake, with many writers, one of whom dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Shown

from headgate.core.log_entry import LogEntry
from headgate.demo.processes import FIRST_ID, SPARK, WRITERS, DemoWriter, write_at_once
from headgate.demo.shop import CUSTOMER_COLUMNS, ORDER_COLUMNS, ORDER_EXPRESSIONS, customers, orders
from headgate.demo.writer import ROWS
from headgate.errors import InternalError
from headgate.lake import Lake
from headgate.model.probe import ProbeReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_ORDERS = 1000
SPARK_COMMITS = 2
SPARK_ROWS = 2000
LATE_ORDERS = 500
KILLED_REMARK = "killed at work"
TAG = "before-channels"
LOOK_FURTHER = (
    ("log",),
    ("tables",),
    ("show", "sales.orders"),
    ("read", "sales.orders", "--where", "amount > 199", "--limit", "5"),
    ("read", "sales.orders", "--tag", TAG, "--limit", "5"),
    ("sql", "SELECT channel, count(*) FROM sales.orders GROUP BY channel"),
)
"""Commands to type next; the lake goes behind the first word of each."""
QUERY = f"""\
SELECT c.country, count(*) AS orders, sum(o.amount) AS amount,
       count(o.channel) AS with_channel, any_value(before.orders) AS orders_before
FROM sales.orders o
JOIN sales.customers c ON c.id = o.customer
JOIN (SELECT c.country, count(*) AS orders
      FROM sales.orders VERSION AS OF '{TAG}' o JOIN sales.customers c ON c.id = o.customer
      GROUP BY c.country) before ON before.country = c.country
GROUP BY c.country ORDER BY amount DESC"""


def tell(directory: Path, console: Console, spark: SparkSession) -> Lake:
    """Tells the story on a new lake in `directory`."""
    lake = _make_lake(directory, console)
    _open_shop(lake, console, spark)
    _sell(lake, directory, console, spark)
    _evolve(lake, console)
    _travel(lake, console)
    _ask(lake, console, spark)
    _show_versions(lake, console)
    return lake


def _make_lake(directory: Path, console: Console) -> Lake:
    console.rule("[bold]1. A lake is made, and the storage is tried out")
    reports: list[ProbeReport] = []
    lake = Lake.init(directory, on_probe=reports.append)
    for finding in reports[0].findings:
        console.print(f"  {'[green]yes[/]' if finding.held else '[red]no[/] '}  {finding.promise.value}")
    console.print(f"So versions are claimed with the strategy [bold]{lake.strategy}[/bold].\n")
    return lake


def _open_shop(lake: Lake, console: Console, spark: SparkSession) -> None:
    console.rule("[bold]2. Two tables are made and filled, in one version")
    with lake.transaction(["open the shop"]) as tx:
        tx.create_table("sales.customers", CUSTOMER_COLUMNS).append(customers())
        bought = spark.range(FIRST_ORDERS).selectExpr(*ORDER_EXPRESSIONS)
        tx.create_table("sales.orders", ORDER_COLUMNS, partition_by=["day(ts)"]).append(bought)
    console.print(
        f"Version {tx.result.version} has both: {' and '.join(lake.tables())}. One came from Arrow, the "
        "other from Spark.\nNobody will ever see one without the other.\n"
    )


def _sell(lake: Lake, directory: Path, console: Console, spark: SparkSession) -> None:
    console.rule(f"[bold]3. {WRITERS} processes and Spark append at once, and one process is killed")
    told: list[tuple[int, str]] = []

    def append_with_spark(on_commit: Callable[[], None]) -> None:
        for number in range(SPARK_COMMITS):
            start = FIRST_ID * (WRITERS + 1) + number * SPARK_ROWS
            rows = spark.range(start, start + SPARK_ROWS, 1, 2).selectExpr(*ORDER_EXPRESSIONS)
            result = lake.table("sales.orders").append(rows, args=[SPARK, str(number)])
            told.append((result.version, result.txid))
            on_commit()

    writers = write_at_once(directory, console, append_with_spark, SPARK_COMMITS)
    _show_writers(lake, writers, told, console)
    _check(lake, writers, told)
    console.print(
        "Every commit that a writer was told of is in the log once; "
        f"versions 1 to {lake.version} have no gap.\nNobody held a lock, and no server was asked.\n"
    )


def _show_writers(
    lake: Lake, writers: list[DemoWriter], by_spark: list[tuple[int, str]], console: Console
) -> None:
    shown = _table("Who was told what", ("writer", "told of", "in the log", "lost races", ""))
    entries = lake.log()
    lines = [
        *((writer.name, writer.told, KILLED_REMARK if writer.killed else "") for writer in writers),
        (SPARK, by_spark, f"{SPARK_ROWS:,} rows each"),
    ]
    for name, told, remark in lines:
        own = [entry for entry in entries if entry.args[:1] == (name,)]
        lost = sum(entry.attempts - 1 for entry in own)
        shown.add_row(name, str(len(told)), str(len(own)), str(lost), remark)
    console.print(shown)


def _check(lake: Lake, writers: list[DemoWriter], by_spark: list[tuple[int, str]]) -> None:
    entries = lake.log()
    by_version = {entry.version: entry.txid for entry in entries}
    told = [each for writer in writers for each in writer.told] + by_spark
    wrong = [each for each in told if by_version.get(each[0]) != each[1]]
    if wrong or sorted(by_version) != list(range(1, lake.version + 1)):
        raise InternalError(f"the log does not agree with what the writers were told: {wrong[:3]}")
    by_processes = sum(entry.args[:1] != (SPARK,) for entry in entries if entry.version > 1)
    expected = FIRST_ORDERS + by_processes * ROWS + len(by_spark) * SPARK_ROWS
    ids = lake.table("sales.orders").read_arrow(columns=["id"]).column("id")
    if len(ids) != expected or len(ids.unique()) != expected:
        raise InternalError(f"sales.orders has {len(ids)} rows, not {expected}")


def _evolve(lake: Lake, console: Console) -> None:
    console.rule("[bold]4. A column is added, rows fill it, and totals are written: one version")
    lake.tag(TAG, args=["remember", TAG])
    late = orders(range(FIRST_ID * (WRITERS + 2), FIRST_ID * (WRITERS + 2) + LATE_ORDERS))
    channels = pa.array(["web" if number % 3 else "shop" for number in range(LATE_ORDERS)])
    with lake.transaction(["add channels"], app=("demo", 1)) as tx:
        table = tx.table("sales.orders")
        table.add_column("channel", "STRING", doc="where it was sold")
        table.append(late.append_column("channel", channels))
        totals = late.group_by("customer").aggregate([("amount", "sum")])
        totals = pa.table({"customer": totals["customer"], "amount": totals["amount_sum"]})
        tx.create_table("sales.late_totals", "customer BIGINT, amount DECIMAL(38, 2)").append(totals)
    console.print(f"Version {tx.result.version}: no data file was written again for the column.\n")


def _travel(lake: Lake, console: Console) -> None:
    console.rule("[bold]5. Every version is still there")
    shown = _table("sales.orders", ("as of", "rows", "columns"))
    for name, view in (
        ("version 1", lake.at(1)),
        (f"tag {TAG} (version {lake.tags[TAG]})", lake.at(tag=TAG)),
        (f"now (version {lake.version})", lake.at()),
    ):
        table = view.table("sales.orders")
        snapshot = table.snapshot
        columns = ", ".join(field.name for field in table.schema.fields)
        shown.add_row(name, f"{0 if snapshot is None else snapshot.rows:,}", columns)
    console.print(shown, "")


def _ask(lake: Lake, console: Console, spark: SparkSession) -> None:
    console.rule("[bold]6. Spark answers a query over two tables and two versions")
    console.print(f"[dim]{QUERY}[/]")
    found: list[Any] = lake.sql(spark, QUERY).collect()
    shown = _table("", ("country", "orders", "amount", "with a channel", f"orders at {TAG}"))
    for row in found:
        shown.add_row(row[0], f"{row[1]:,}", f"{row[2]:,}", f"{row[3]:,}", f"{row[4]:,}")
    console.print(shown, "")


def _show_versions(lake: Lake, console: Console) -> None:
    console.rule("[bold]7. What the log says")
    shown = _table("The last versions", ("version", "by", "what", "based on", "tries"))
    for entry in lake.log(limit=8):
        shown.add_row(
            str(entry.version), " ".join(entry.args), _what(entry), str(entry.base), str(entry.attempts)
        )
    console.print(shown, "")


def _what(entry: LogEntry) -> str:
    tags = [f"tag {name} = {version}" for name, version in entry.tags.items()]
    return ", ".join([*entry.tables, *tags])


def _table(title: str, columns: tuple[str, ...]) -> Shown:
    shown = Shown(title=title or None, title_justify="left", header_style="bold cyan")
    for column in columns:
        text = column in ("writer", "", "as of", "columns", "country", "by", "what")
        shown.add_column(column, justify="left" if text else "right")
    return shown
