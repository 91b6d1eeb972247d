"""A consumer's numbers, and the names that Kafka's consumer has for them. Pure. Not here: who counts (fetcher.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.groups.member_report import GroupStatistics
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchStatistics:
    """Counts since the consumer was made.

    `throttle_time_ms`, `throttle_time_max_ms`: how long brokers made it wait because its quota was used up, in all and
    at most after one fetch.
    """

    requests: int = 0
    bytes_fetched: int = 0
    resets: int = 0
    leader_changes: int = 0
    broken_streams: int = 0
    silences: int = 0
    throttle_time_ms: int = 0
    throttle_time_max_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Counts since the consumer was made."""

    records: int
    polls: int
    buffered_bytes: int
    fetch: FetchStatistics
    group: GroupStatistics | None = None


def consumer_metrics(states: Mapping[TopicPartition, PartitionState], counts: ConsumerStatistics) -> dict[str, int]:
    """Totals, and the lag of each partition as far as it is known."""
    known = {tp: lag for tp, state in states.items() if (lag := state.lag) is not None}
    group = counts.group
    return {
        "records-consumed-total": counts.records,
        "bytes-consumed-total": counts.fetch.bytes_fetched,
        "fetch-total": counts.fetch.requests,
        "fetch-throttle-time-avg": counts.fetch.throttle_time_ms // max(counts.fetch.requests, 1),
        "fetch-throttle-time-max": counts.fetch.throttle_time_max_ms,
        "assigned-partitions": len(states),
        "paused-partitions": sum(state.paused for state in states.values()),
        "buffered-bytes": counts.buffered_bytes,
        **(
            {
                "heartbeat-total": group.heartbeats,
                "rebalance-total": group.rebalances,
                "commit-total": group.commits,
            }
            if group is not None
            else {}
        ),
        **({"records-lag-max": max(known.values())} if known else {}),
        **{f"{tp}.records-lag": lag for tp, lag in known.items()},
    }
