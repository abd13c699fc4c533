"""Files of other programs into tables: CSV, JSON lines and Parquet, any number of them in one version."""

from headgate.ingest.load import IngestOptions, IngestResult, ingest
from headgate.model.file_format import Format

__all__ = ["Format", "IngestOptions", "IngestResult", "ingest"]
