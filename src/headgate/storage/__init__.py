"""What a storage promises, and the stores that promise it."""
