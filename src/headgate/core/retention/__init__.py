"""Which versions are kept, and which objects nothing refers to."""
