"""One partition of a fetch session: what the fetcher wants of it, and what the last answer told of it.

Not here: which partitions a session has (session_partitions.py), and how they are read (session_reads.py).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.replication.leader.partition_watcher import PartitionWatcher
from broker.replication.partition import Partition
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fetch import FetchPartition, PartitionFetchResult
from penstock.types import NO_LEADER, NO_OFFSET, EpochEndOffset, TopicPartition

GetPartition = Callable[[TopicPartition, str], Partition]
"""`HostedPartitions.get`."""


@dataclass(slots=True)
class WatchedPartition:
    """One partition of a fetch session, with what the fetcher wants and what the last answer said of it."""

    wanted: FetchPartition
    diverging: EpochEndOffset | None = None
    error: ApiError | None = None
    sent_high_watermark: int = -1
    sent_last_stable_offset: int = -1
    sent_log_start_offset: int = -1
    last_high_watermark: int = -1
    """The newest that the fetcher was told, wherever it asked from since."""
    sent_records_at: int = -1
    sent_trouble: type[ApiError] | EpochEndOffset | None = None
    """The error, or where the histories part, if the last answer told one."""
    doubted_at: int = -1
    source: Partition | None = None
    quiet: PartitionFetchResult | None = None
    """The partition's result in full answers until there is news of it."""
    is_copy: bool = False
    """True if the records of the last look go to a replica that moves."""
    is_followed: bool = False
    """True if the last look found a partition that this broker follows, and whose consumer it serves."""
    behind_since_ms: int | None = None
    """The time when this follower's high watermark was first below the consumer's offset; None if it is not."""

    def want(self, wanted: FetchPartition) -> None:
        """The fetcher asks anew: what it was told of its last position does not count any more."""
        self.wanted, self.error, self.diverging, self.sent_trouble, self.quiet = wanted, None, None, None, None
        self.behind_since_ms = None

    def watch(self, get: GetPartition, watcher: PartitionWatcher) -> Partition:
        """The hosted partition, watched by this session from now on."""
        wanted = self.wanted
        source = get(wanted.partition, wanted.topic_id)
        if self.source is not source:
            self.unwatch(watcher)
            source.watchers[watcher] = None
            self.source = source
        return source

    def unwatch(self, watcher: PartitionWatcher) -> None:
        if self.source is not None:
            self.source.watchers.pop(watcher, None)

    def has_new_trouble(self, result: PartitionFetchResult) -> bool:
        """True if the result has an error or a diverging epoch that the fetcher does not know. A trouble that it knows
        is sent again, and does not end its wait."""
        trouble = _trouble(result)
        return trouble is not None and trouble != self.sent_trouble

    def has_news(self, result: PartitionFetchResult) -> bool:
        sent = self.sent_high_watermark, self.sent_log_start_offset, self.sent_last_stable_offset
        return sent != (result.high_watermark, result.log_start_offset, result.last_stable_offset)

    def is_sent_again(self, result: PartitionFetchResult) -> bool:
        """True if the answer may be lost that told this, and the fetcher needs it."""
        return bool(result.records) or self.sent_trouble is not None or result.preferred_read_replica != NO_LEADER

    def sent(self, result: PartitionFetchResult) -> None:
        """The fetcher is told this result now."""
        self.sent_high_watermark, self.sent_last_stable_offset = result.high_watermark, result.last_stable_offset
        self.sent_log_start_offset = result.log_start_offset
        self.last_high_watermark = max(self.last_high_watermark, result.high_watermark)
        self.sent_records_at = result.fetch_offset if result.records else NO_OFFSET
        self.sent_trouble = _trouble(result)


def _trouble(result: PartitionFetchResult) -> type[ApiError] | EpochEndOffset | None:
    return type(result.error) if result.error is not None else result.diverging_epoch
