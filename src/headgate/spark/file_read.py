"""Files of other programs as DataFrames: read by Spark, with the rules that hold without Spark too."""

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
from headgate.iceberg.arrow import fitted
from headgate.model.file_format import Format
from headgate.spark.fitting import quoted
from headgate.spark.types import schema_to_spark


def file_frame(
    spark: SparkSession, place: str, sources: Sequence[SourceFile], dialect: Dialect, schema: Schema
) -> DataFrame:
    """The rows of files of one format, with the columns of `schema`; what a file lacks is null.

    Headers of CSV files and footers of Parquet files are looked at at once: `InvalidInputError` names a file
    that does not fit, for `place`. Other values that do not fit are found when Spark reads them.
    """
    struct = StructType([StructField(f.name, f.dataType) for f in schema_to_spark(schema).fields])
    match sources[0].format:
        case Format.CSV:
            return _csv_by_header(spark, place, sources, dialect, struct)
        case Format.PARQUET:
            for source in sources:
                present = parquet_file.sampled_schema(source)
                fitted(present.empty_table(), schema, f"{place} ({source})")
    return read_files(spark, sources, file_options(sources[0], dialect), struct)


def _csv_by_header(
    spark: SparkSession, place: str, sources: Sequence[SourceFile], dialect: Dialect, struct: StructType
) -> DataFrame:
    """Files with the same header at a time, for Spark goes by the place of a column and not by its name."""
    by_header: dict[tuple[tuple[str, ...], bool], list[SourceFile]] = {}
    for source in sources:
        header = csv_file.header_of(source, dialect) if dialect.header else tuple(struct.names)
        unknown = [name for name in header if name not in struct.names]
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
    # An empty one first, so that all columns are there in their order.
    empty = spark.createDataFrame([], struct)
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames, empty)
    return rows if len(frames) > 1 or frames[0].columns != struct.names else frames[0]


def read_files(
    spark: SparkSession, sources: Sequence[SourceFile], options: dict[str, str], struct: StructType | None
) -> DataFrame:
    """The rows of files of one format. Without columns, Spark looks for them in the files."""
    reader = spark.read.options(**options)
    if struct is not None:
        reader = reader.schema(struct)
    try:
        return reader.format(sources[0].format.value).load(
            [source.path.absolute().as_uri() for source in sources]
        )
    except PySparkException as error:
        raise InvalidInputError(f"Spark cannot read the files: {error}") from error


def csv_struct(spark: SparkSession, sources: Sequence[SourceFile], dialect: Dialect) -> StructType:
    """The columns of CSV files, as Spark finds them in all rows; numbers with leading zeros are text."""
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
    """Spark's options for files like `source`, of any format: what cannot be read is an error."""
    if source.format is not Format.CSV:
        return {"mode": "FAILFAST"}
    return {
        "mode": "FAILFAST",
        "header": str(dialect.header).lower(),
        "sep": dialect.delimiter or ("\t" if source.is_tsv else ","),
        "multiLine": "true",
        "escape": '"',
        # As without Spark: an unquoted empty value is null, and "" is empty text. Spark reads both as null if
        # they are written alike, so what stands for null is something that no file has.
        "nullValue": "\x00",
        "emptyValue": "",
        "inferSchema": str(infer).lower(),
        # Otherwise the names in the header would not be looked at.
        "enforceSchema": "false",
    }
