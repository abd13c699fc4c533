"""Services that look after a lake: each observes, plans, commits what must be agreed, and acts."""
