"""Services that look after a lake: compaction, clustering, expire, vacuum."""
