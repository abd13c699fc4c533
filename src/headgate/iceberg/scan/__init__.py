"""Which files a read or a change needs, and the interface of the engines."""
