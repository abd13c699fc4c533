"""Files of other programs as DataFrames: read by Spark, by the same rules as without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyiceberg.schema import Schema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import NumericType, StringType, StructField, StructType

from headgate.errors import InvalidInputError
from headgate.files import csv_file, parquet_file
from headgate.files.csv_file import LEADING_ZERO, Dialect
from headgate.files.source import SourceFile
from headgate.files.text_value import ADVICE
from headgate.iceberg.schema.arrow import fitted
from headgate.model.named_object import Format
from headgate.spark.fitting import quoted
from headgate.spark.types import schema_to_spark


def file_frame(
    spark: SparkSession, place: str, sources: Sequence[SourceFile], dialect: Dialect, schema: Schema
) -> DataFrame:
    """The rows of files of one format, with the columns of `schema`; columns that a file lacks are null.

    Headers and quotes of CSV files and footers of Parquet files are checked immediately: `InvalidInputError`
    names a file that does not fit `place`. Other values that do not fit are detected when Spark reads them.
    """
    struct = StructType([StructField(f.name, f.dataType) for f in schema_to_spark(schema).fields])
    match sources[0].format:
        case Format.CSV:
            return _csv_by_header(spark, place, sources, dialect, struct)
        case Format.PARQUET:
            for source in sources:
                present = parquet_file.infer_schema(source)
                fitted(present.empty_table(), schema, f"{place} ({source})")
    return read_files(spark, sources, file_options(sources[0], dialect), struct)


def _csv_by_header(
    spark: SparkSession, place: str, sources: Sequence[SourceFile], dialect: Dialect, struct: StructType
) -> DataFrame:
    """Reads files with the same header together, because Spark maps CSV columns by position, not by name."""
    known = set(struct.names)
    by_header: dict[tuple[tuple[str, ...], bool], list[SourceFile]] = {}
    for source in sources:
        csv_file.require_closed_quotes(source, dialect)
        header = csv_file.header_of(source, dialect) if dialect.header else tuple(struct.names)
        unknown = [name for name in header if name not in known]
        if unknown:
            raise InvalidInputError(
                f"{place} ({source}): column {unknown[0]} is not one of {', '.join(struct.names)}", ADVICE
            )
        by_header.setdefault((header, source.is_tsv), []).append(source)
    frames = [
        read_files(
            spark, files, file_options(files[0], dialect), StructType([struct[name] for name in header])
        )
        for (header, _), files in by_header.items()
    ]
    # An empty frame first, so that all columns exist, in the right order.
    empty = spark.createDataFrame([], struct)
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames, empty)
    return rows if len(frames) > 1 or frames[0].columns != struct.names else frames[0]


def read_files(
    spark: SparkSession, sources: Sequence[SourceFile], options: dict[str, str], struct: StructType | None
) -> DataFrame:
    """The rows of files of one format. Without `struct`, Spark infers the columns from the files."""
    reader = spark.read.options(**options).options(__globPaths__="false", recursiveFileLookup="true")
    if struct is not None:
        reader = reader.schema(struct)
    try:
        # Not as URIs: Hadoop reads a name literally, including percent signs.
        return reader.format(sources[0].format.value).load(
            [f"file://{source.path.absolute()}" for source in sources]
        )
    except PySparkException as error:
        raise InvalidInputError(f"Spark cannot read the files: {error}") from error


def csv_struct(spark: SparkSession, sources: Sequence[SourceFile], dialect: Dialect) -> StructType:
    """The columns of CSV files, inferred by Spark from all rows; numbers with leading zeros are strings."""
    found = read_files(spark, sources, file_options(sources[0], dialect, infer=True), None).schema
    numbers = [field.name for field in found.fields if isinstance(field.dataType, NumericType)]
    if not numbers:
        return found
    text = StructType([StructField(field.name, StringType()) for field in found.fields])
    rows = read_files(spark, sources, file_options(sources[0], dialect), text)
    zeros = [
        sf.max(sf.col(quoted(name)).rlike(LEADING_ZERO)).alias(str(at)) for at, name in enumerate(numbers)
    ]
    seen = rows.agg(*zeros).collect()[0]
    kept = {name for at, name in enumerate(numbers) if seen[at]}
    return StructType([text[f.name] if f.name in kept else f for f in found.fields])


def file_options(source: SourceFile, dialect: Dialect, *, infer: bool = False) -> dict[str, str]:
    """Spark's options for files like `source`, of any format: unreadable data is an error."""
    if source.format is not Format.CSV:
        return {"mode": "FAILFAST"}
    return {
        "mode": "FAILFAST",
        "header": str(dialect.header).lower(),
        "sep": dialect.delimiter_of(source),
        "multiLine": "true",
        "escape": '"',
        # As without Spark: an unquoted empty value is null, and "" is an empty string. Spark reads both as
        # null if they look the same, so the marker for null is a string that no file contains.
        "nullValue": "\x00",
        "emptyValue": "",
        "inferSchema": str(infer).lower(),
        # Otherwise Spark would ignore the names in the header.
        "enforceSchema": "false",
    }
