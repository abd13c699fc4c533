"""Decisions about what to do, from what was read: recovery, refreshes, hooks, the commit strategy."""
