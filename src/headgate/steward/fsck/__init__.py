"""Looking at a whole lake, and changing nothing of it."""
