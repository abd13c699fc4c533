"""Spark's parser: turns SQL into a tree of plain values, and runs the same tree on rows of the lake.

This is the only module that uses the classes of Spark's syntax trees. It makes no decisions: those are in
`core/sql/stored.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.core.sql.allowed import TRAVEL
from headgate.core.sql.stored import MAX_DEPTH, MAX_NODES, Node, Part, Relation
from headgate.errors import InvalidInputError

_TEXT = "org.apache.spark.unsafe.types.UTF8String"
_SHAPES = (
    ("scala.collection.Seq", "sequence"),
    ("scala.collection.Map", "map"),
    ("java.util.Map", "options"),
    ("scala.Product", "node"),
)
"""How the values in an object are accessed, by its class. A list is also a product; the first match wins."""


@dataclass(slots=True)
class Syntax:
    """SQL as Spark's parser reads it. `tree` contains every class and value of its plan."""

    spark: SparkSession
    plan: Any
    text: str
    nodes: list[Any] = field(default_factory=list)
    shapes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, text: str) -> Syntax:
        """Parses SQL without resolving names or reading data. `InvalidInputError` if it is not valid SQL.

        Uses Spark's built-in parser, not that of the session: that one would substitute settings and
        environment variables of the reader for `${…}`, and extensions may take part in it.
        """
        jvm: Any = spark._jvm
        parser = jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()
        try:
            return cls(spark, parser.parsePlan(text), text)
        except (PySparkException, Py4JJavaError) as error:
            raise InvalidInputError(f"Spark cannot read the query: {reason(error)}") from error

    @property
    def case_sensitive(self) -> bool:
        """Whether names that differ only in case are different in this session."""
        session: Any = self.spark
        return bool(session._jsparkSession.sessionState().conf().caseSensitiveAnalysis())

    def tree(self) -> Node:
        root = self._part(self.plan, 0)
        assert isinstance(root, Node), root
        return root

    # --- from the JVM to plain values -------------------------------------------------------------------

    def _part(self, value: Any, depth: int) -> Part:
        if not isinstance(value, JavaObject):
            return value if isinstance(value, str | int | float | bytes | bool | None) else str(value)
        if depth > MAX_DEPTH:
            raise InvalidInputError("the query is nested too deeply", f"use at most {MAX_DEPTH} levels")
        kind = value.getClass().getName()
        match self._shape(kind, value):
            case "text":
                return str(value.toString())
            case "sequence":
                return tuple(self._part(value.apply(at), depth + 1) for at in range(value.size()))
            case "map":
                return self._part(value.toSeq(), depth + 1)
            case "options":
                return tuple(str(name) for name in value)
            case "node":
                parts = range(value.productArity())
                return self._node(
                    kind, value, tuple(self._part(value.productElement(at), depth + 1) for at in parts)
                )
            case _:
                return self._node(kind, value, ())

    def _node(self, kind: str, value: Any, parts: tuple[Part, ...]) -> Node:
        if len(self.nodes) == MAX_NODES:
            raise InvalidInputError(
                f"the query has more than {MAX_NODES:,} parts, counting those that Spark's parser repeats",
                "write CASE WHEN x = … instead of CASE x WHEN …, where x is long",
            )
        self.nodes.append(value)
        return Node(kind, parts, len(self.nodes) - 1, self._source(value) if kind == TRAVEL else "")

    def _source(self, value: Any) -> str:
        origin = value.origin()
        if origin.startIndex().isEmpty() or origin.stopIndex().isEmpty():
            return ""
        # Java counts UTF-16 units.
        units = self.text.encode("utf-16-le")[
            2 * origin.startIndex().get() : 2 * origin.stopIndex().get() + 2
        ]
        return units.decode("utf-16-le", "replace")

    def _shape(self, kind: str, value: Any) -> str:
        """How the values inside an object are accessed; the same for all objects of a class."""
        if kind not in self.shapes:
            self.shapes[kind] = self._looked_up(kind, value)
        return self.shapes[kind]

    def _looked_up(self, kind: str, value: Any) -> str:
        if kind == _TEXT:
            return "text"
        for name, shape in _SHAPES:
            if is_instance_of(self.spark.sparkContext._gateway, value, name):
                return shape
        return "value"

    # --- running it --------------------------------------------------------------------------------------

    def frame(self, tree: Node, rows: Mapping[Relation, DataFrame]) -> DataFrame:
        """The result of the tree, with `rows` in place of the relations that it names.

        It is analyzed in a session of its own, with the settings of the reader's session but without its
        temporary views, functions and variables.
        """
        jvm: Any = self.spark._jvm
        session: Any = self.spark
        given = {relation.number: self._named(relation.table, frame) for relation, frame in rows.items()}
        plan = self._replaced(tree, given)
        alone = session._jsparkSession.newSession()
        settings = alone.sessionState().conf().settings()
        settings.clear()
        settings.putAll(session._jsparkSession.sessionState().conf().settings())
        dataset = jvm.org.apache.spark.sql.classic.Dataset
        analyzed = dataset.ofRows(alone, self.plan if plan is None else plan).queryExecution().analyzed()
        return DataFrame(dataset.ofRows(session._jsparkSession, analyzed), self.spark)

    def _named(self, table: str, frame: DataFrame) -> Any:
        """The rows, with columns that can be qualified by the table's name, with or without its namespace."""
        jvm: Any = self.spark._jvm
        namespace, _, name = table.partition(".")
        qualifier = jvm.PythonUtils.toSeq(self._java_list([namespace]))
        alias = jvm.org.apache.spark.sql.catalyst.AliasIdentifier(name, qualifier)
        logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        frame_: Any = frame.select("*")
        plan = frame_._jdf.queryExecution().analyzed()
        # Columns that Spark keeps hidden, such as _metadata, contain the paths of files.
        plan.setTagValue(logical.Project.hiddenOutputTag(), jvm.PythonUtils.toSeq(self._java_list([])))
        return logical.SubqueryAlias(alias, plan)

    def _replaced(self, part: Part, given: Mapping[int, Any]) -> Any | None:
        """The object of a part with other objects in place of some nodes; None if nothing in it changes."""
        if isinstance(part, tuple):
            return self._replaced_sequence(part, given)
        if not isinstance(part, Node):
            return None
        if part.number in given:
            return given[part.number]
        changed = {at: self._replaced(inner, given) for at, inner in enumerate(part.parts)}
        new = {at: value for at, value in changed.items() if value is not None}
        return self._copied(part, new) if new else None

    def _replaced_sequence(self, parts: tuple[Part, ...], given: Mapping[int, Any]) -> Any | None:
        changed = [self._replaced(inner, given) for inner in parts]
        if all(value is None for value in changed):
            return None
        values = [
            self._object(part) if value is None else value for part, value in zip(parts, changed, strict=True)
        ]
        jvm: Any = self.spark._jvm
        return jvm.PythonUtils.toSeq(self._java_list(values)).toList()

    def _object(self, part: Part) -> Any:
        return self.nodes[part.number] if isinstance(part, Node) else part

    def _copied(self, node: Node, new: Mapping[int, Any]) -> Any:
        """A copy of a node's object with some of its parts changed."""
        jvm: Any = self.spark._jvm
        value = self.nodes[node.number]
        if node.kind == "scala.Some":
            return jvm.scala.Some(new[0])
        parts = value.productIterator().toArray(jvm.scala.reflect.ClassTag.Object())
        for at, part in new.items():
            parts[at] = part
        if node.kind == "scala.Tuple2":
            return jvm.scala.Tuple2(*parts)
        if node.kind == "scala.Tuple3":
            return jvm.scala.Tuple3(*parts)
        return value.makeCopy(parts)

    def _java_list(self, values: list[Any]) -> Any:
        jvm: Any = self.spark._jvm
        made = jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made


def reason(error: Exception) -> str:
    """Spark's message, without the JVM stack trace."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString()).strip()
    return str(error).strip()
