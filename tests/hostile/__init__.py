"""Lakes that somebody made to harm whoever opens them."""
