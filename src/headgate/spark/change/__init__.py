"""Row-level changes and rewrites of files with Spark."""
