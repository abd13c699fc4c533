"""The engine in this process: rows through Arrow, no JVM."""
