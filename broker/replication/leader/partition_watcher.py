"""The port by which a partition tells fetch sessions of news, and a fetcher that it went offline.

A `Protocol` only: partition.py calls it, fetch_session.py and fetcher_manager.py are what stands behind it. Not here:
what the news are worth.
"""

from __future__ import annotations

from typing import Protocol

from penstock.types import TopicPartition


class PartitionWatcher(Protocol):
    """A fetch session that has this partition, or the fetchers that follow it."""

    is_replica: bool

    def partition_changed(self, partition: TopicPartition, wake: bool) -> None:
        """There may be something new to answer; `wake` when it is worth an answer by itself."""
        ...
