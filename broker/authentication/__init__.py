"""Finds out who the callers of a node are, and what proves it. Not here: what they may do."""
