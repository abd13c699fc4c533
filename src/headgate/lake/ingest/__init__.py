"""Loads CSV, JSON lines, Parquet and text files into tables, any number of files in one version."""

from headgate.lake.ingest.load import IngestOptions, IngestResult, ingest
from headgate.model.named_object import Format

__all__ = ["Format", "IngestOptions", "IngestResult", "ingest"]
