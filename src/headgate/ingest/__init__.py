"""Files of other programs into tables: CSV, JSON lines and Parquet, any number of them in one version."""

import pyarrow as pa

from headgate.ingest.load import IngestOptions, IngestResult, ingest
from headgate.ingest.source import Format

__all__ = ["Format", "IngestOptions", "IngestResult", "ingest"]

# While Arrow reads a file it takes Ctrl-C for itself, and forgets it when the file ends right then.
pa.enable_signal_handlers(False)
