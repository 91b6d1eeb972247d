"""Fetch sessions: the partitions that one fetcher wants, what is new of them, and when its requests are answered."""
