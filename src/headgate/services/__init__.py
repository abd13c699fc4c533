"""Table services: work on the files of tables that changes no row, scheduled through the log."""
