"""Decisions on topics: creation, deletion, more partitions, placement, and owners."""
