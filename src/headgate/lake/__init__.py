"""The public objects: lakes, their tables, views and history."""
