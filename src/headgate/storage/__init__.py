"""Where bytes live: what a storage can promise (capabilities), and the stores that promise it."""
