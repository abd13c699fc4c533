"""Files of other programs: CSV, JSON, Parquet, text."""

import pyarrow as pa

# While Arrow reads a file it takes Ctrl-C for itself, and forgets it when the file ends right then.
pa.enable_signal_handlers(False)
