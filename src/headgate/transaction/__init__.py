"""One attempt to change the lake: what it changes, what it depends on, how it commits."""
