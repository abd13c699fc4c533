"""The log: who wins a version, where its record lies, and how the log is read."""
