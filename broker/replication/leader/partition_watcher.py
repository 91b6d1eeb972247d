"""The port by which a partition notifies fetch sessions of news, and its fetcher that it went offline.

A `Protocol` only: partition.py calls it; fetch_session.py and fetcher_manager.py implement it.
"""

from __future__ import annotations

from typing import Protocol

from penstock.types import TopicPartition


class PartitionWatcher(Protocol):
    """A fetch session that has this partition, or the fetchers that follow it."""

    @property
    def is_replica(self) -> bool: ...

    def partition_changed(self, partition: TopicPartition, wake: bool) -> None:
        """The partition may have news; with `wake`, they are worth an answer at once."""
        ...
