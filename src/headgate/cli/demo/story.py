"""The story of the demo: a small shop on a lake, with many writers, one of which is killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table as Shown
from rich.text import Text

from headgate.cli.demo import commands, other_engine
from headgate.cli.demo.processes import WRITERS, DemoWriter, write_at_once
from headgate.cli.demo.shop import (
    CUSTOMER_COLUMNS,
    ORDER_COLUMNS,
    ORDER_EXPRESSIONS,
    customers,
)
from headgate.cli.demo.writer import ORDERS
from headgate.errors import ConflictError, InternalError
from headgate.hooks import CommitEvent, Hook, Python, When
from headgate.lake.lake import Lake
from headgate.model.probe import ProbeReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_ORDERS = 1000
SMALL_APPENDS = 12
CHANGED_ORDERS = 100
NEW_ORDERS = 50
FIRST_LATE = 90_000_000
KILLED_REMARK = "killed"
TAG = "before-the-sale"
LOOK_FURTHER = (
    ("log",),
    ("tables",),
    ("show", "sales.orders"),
    ("read", "sales.orders", "--where", "amount > 199", "--limit", "5"),
    ("read", "sales.orders", "--tag", TAG, "--limit", "5"),
    ("compact", "--dry-run"),
    ("fsck",),
    ("sql", "SELECT count(*), sum(amount) FROM sales.orders"),
)
"""Commands to type next; the lake goes after the first word of each."""
QUERY = f"""\
SELECT c.country, count(*) AS orders, sum(o.amount) AS amount, any_value(before.amount) AS amount_before
FROM sales.orders o
JOIN sales.customers c ON c.id = o.customer
JOIN (SELECT c.country, sum(o.amount) AS amount
      FROM sales.orders VERSION AS OF '{TAG}' o JOIN sales.customers c ON c.id = o.customer
      GROUP BY c.country) before ON before.country = c.country
GROUP BY c.country ORDER BY amount DESC"""


def tell(directory: Path, console: Console, spark: SparkSession) -> Lake:
    """Tells the story on a new lake in `directory`."""
    story = Story(directory, console, spark)
    chapters: tuple[tuple[str, Callable[[], None]], ...] = (
        ("Create a lake and probe the storage", story.make_lake),
        ("Create and fill two tables in one version", story.open_shop),
        (f"{WRITERS} Spark processes append concurrently, and one is killed", story.sell),
        ("Recover from the killed writer", story.recover),
        ("Merge orders, and run a hook", story.merge),
        ("Two users update the same row", story.contradict),
        ("Compact small files", story.compact),
        ("Read earlier versions", story.travel),
        ("Query two tables and two versions with Spark", story.ask),
        ("Read the same table with another engine", story.ask_elsewhere),
    )
    for number, (title, chapter) in enumerate(chapters, 1):
        console.rule(f"[bold]{number}. {title}")
        chapter()
        console.print()
    return story.lake


@dataclass
class Story:
    """The chapters, in order: each continues with the lake that the earlier ones left."""

    directory: Path
    console: Console
    spark: SparkSession
    lake: Lake = field(init=False)

    def make_lake(self) -> None:
        reports: list[ProbeReport] = []
        self.lake = Lake.init(self.directory, on_probe=reports.append)
        for finding in reports[0].findings:
            held = "[green]yes[/]" if finding.held else "[red]no[/] "
            self.console.print(f"  {held}  {finding.promise.value}")
        self._say(f"Writers will claim versions with the strategy [bold]{self.lake.strategy}[/bold].")

    def open_shop(self) -> None:
        with self.lake.transaction(["open the shop"]) as tx:
            tx.create_table("sales.customers", CUSTOMER_COLUMNS).append(customers())
            bought = self.spark.range(FIRST_ORDERS).selectExpr(*ORDER_EXPRESSIONS)
            tx.create_table("sales.orders", ORDER_COLUMNS, partition_by=["bucket(2, customer)"]).append(
                bought
            )
        self._say(
            f"Version {tx.result.version} has both {' and '.join(self.lake.tables())}. One came from Arrow, "
            "the other from Spark.\nNo reader will ever see one without the other."
        )

    def sell(self) -> None:
        writers = write_at_once(self.directory, self.console)
        self._show_writers(writers)
        self._check_writers(writers)
        self._say(
            "Every acknowledged commit is in the log exactly once; "
            f"versions 1 to {self.lake.version} have no gap.\nEach has customers and their orders, or "
            "neither. No writer held a lock, and there is no server."
        )

    def recover(self) -> None:
        commands.run(self.console, "recover", str(self.directory))
        commands.run(self.console, "vacuum", str(self.directory), "--older-than", "0s")
        self._say(
            "Recovery finishes the work that follows each commit. Vacuum deletes the files of the "
            "transaction\n"
            "that never committed. First it cancels that transaction in the log, so that it cannot commit "
            "later."
        )

    def merge(self) -> None:
        heard: list[CommitEvent] = []
        self.lake.add_hook(Hook("hear", Python(heard.append), when=When(tables=("sales.orders",))))
        self.lake.tag(TAG, args=["remember", TAG])
        ids = self.spark.range(CHANGED_ORDERS).union(self.spark.range(FIRST_LATE, FIRST_LATE + NEW_ORDERS))
        halved = "cast(amount / 2 AS decimal(10, 2)) AS amount"
        source = ids.selectExpr(*ORDER_EXPRESSIONS).selectExpr("id", "customer", "ts", halved)
        merge = self.lake.table("sales.orders").merge(source, on="t.id = s.id")
        done = merge.when_matched_update({"amount": "s.amount"}).when_not_matched_insert().commit()
        assert done.rows is not None, "a merge counts"
        self._say(
            f"Version {done.version}: {done.rows.updated} orders at half the price, {done.rows.inserted} new "
            "ones. Old rows are marked as deleted by position; no data file was rewritten.\n"
            f"The hook ran for version {', '.join(str(event.version) for event in heard)}."
        )

    def contradict(self) -> None:
        first, second = self.lake.transaction(["ann"]), self.lake.transaction(["bob"])
        first.table("sales.orders").update({"amount": "amount + 1"}, where="id = 7")
        second.table("sales.orders").update({"amount": "amount * 2"}, where="id = 7")
        first.commit()
        try:
            second.commit()
        except ConflictError as error:
            self.console.print(Panel(Text(str(error)), title="the error that Bob gets", title_align="left"))
        else:
            raise InternalError("two updates of one row were both committed")
        done = self.lake.table("sales.orders").update({"amount": "amount * 2"}, where="id = 7", args=["bob"])
        self._say(
            "Bob's transaction changed nothing. His retry, on top of Ann's update, is version "
            f"{done.version}.\n"
            "Headgate would have retried a single operation automatically."
        )

    def compact(self) -> None:
        orders = self.lake.table("sales.orders")
        with self.console.status("small appends …"):
            for number in range(SMALL_APPENDS):
                start = FIRST_LATE + 1000 + 10 * number
                rows = self.spark.range(start, start + 10, 1, 1).selectExpr(*ORDER_EXPRESSIONS)
                orders.append(rows, args=["small", str(number)])
        before = len(orders.files()), orders.read(self.spark).count()
        commands.run(self.console, "compact", str(self.directory), "sales.orders", "--dry-run")
        commands.run(self.console, "compact", str(self.directory))
        commands.run(self.console, "compact", str(self.directory), "sales.orders", "--dry-run")
        after = len(orders.files()), orders.read(self.spark).count()
        if after[1] != before[1]:
            raise InternalError(f"a compaction left {after[1]} of {before[1]} rows")
        self._say(f"{before[0]} files became {after[0]}, with the same {after[1]:,} rows.")

    def travel(self) -> None:
        shown = _table("sales.orders", ("as of", "rows", "files"))
        for name, view in (
            ("version 1", self.lake.at(1)),
            (f"tag {TAG} (version {self.lake.tags[TAG]})", self.lake.at(tag=TAG)),
            (f"now (version {self.lake.version})", self.lake.at()),
        ):
            table = view.table("sales.orders")
            snapshot = table.snapshot
            shown.add_row(name, f"{0 if snapshot is None else snapshot.rows:,}", str(len(table.files())))
        self.console.print(shown)

    def ask(self) -> None:
        self.console.print(f"[dim]{QUERY}[/]")
        found: list[Any] = self.lake.sql(self.spark, QUERY).collect()
        shown = _table("", ("country", "orders", "amount", f"amount at {TAG}"))
        for row in found:
            shown.add_row(row[0], f"{row[1]:,}", f"{row[2]:,}", f"{row[3]:,}")
        self.console.print(shown)

    def ask_elsewhere(self) -> None:
        if not other_engine.is_there():
            self._say(f"DuckDB is not installed. To run this part: {other_engine.INSTALL}")
            return
        orders = self.lake.table("sales.orders")
        ours = orders.read(self.spark).selectExpr("count(*)", "sum(amount)").first()
        theirs = other_engine.ask(self.directory / "data" / "sales" / "orders", "count(*), sum(amount)")
        if ours is None or tuple(ours) != theirs:
            raise InternalError(f"DuckDB reads {theirs}, and Spark {ours}")
        self._say(f"DuckDB: {theirs[0]:,} orders, {theirs[1]:,} in total, the same as Spark.")

    # --- what the writers did ---------------------------------------------------------------------------

    def _show_writers(self, writers: list[DemoWriter]) -> None:
        shown = _table("Commits of each writer", ("writer", "acknowledged", "in the log", "lost races", ""))
        entries = self.lake.log()
        for writer in writers:
            own = [entry for entry in entries if entry.args[:1] == (writer.name,)]
            lost = sum(entry.attempts - 1 for entry in own)
            remark = KILLED_REMARK if writer.killed else ""
            shown.add_row(writer.name, str(len(writer.told)), str(len(own)), str(lost), remark)
        self.console.print(shown)

    def _check_writers(self, writers: list[DemoWriter]) -> None:
        entries = self.lake.log()
        by_version = {entry.version: entry.txid for entry in entries}
        told = [each for writer in writers for each in writer.told]
        wrong = [each for each in told if by_version.get(each[0]) != each[1]]
        if wrong or sorted(by_version) != list(range(1, self.lake.version + 1)):
            raise InternalError(f"the log does not match the commits that the writers reported: {wrong[:3]}")
        expected = FIRST_ORDERS + (self.lake.version - 1) * ORDERS
        ids = self.lake.table("sales.orders").read_arrow(columns=["id"]).column("id")
        if len(ids) != expected or len(ids.unique()) != expected:
            raise InternalError(f"sales.orders has {len(ids)} rows, not {expected}")

    def _say(self, text: str) -> None:
        self.console.print(text)


def _table(title: str, columns: tuple[str, ...]) -> Shown:
    shown = Shown(title=title or None, title_justify="left", header_style="bold cyan")
    for column in columns:
        text = column in ("writer", "", "as of", "country")
        shown.add_column(column, justify="left" if text else "right")
    return shown
