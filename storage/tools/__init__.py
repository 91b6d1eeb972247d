"""`penstock log`: dumps, verifies and recovers the files of a stopped node."""
