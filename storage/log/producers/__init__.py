"""The producers that a log knows, their transactions, and their snapshots. Not here: the rules (storage/append)."""
