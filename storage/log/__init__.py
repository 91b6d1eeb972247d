"""One log: appends, reads, flushes, cuts, retention, over a list of segments."""
