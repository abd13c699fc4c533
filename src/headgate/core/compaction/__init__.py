"""Which files of a table are due to be put together: pure, from the log and the live files alone."""
