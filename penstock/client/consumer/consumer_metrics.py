"""A consumer's counts, and its numbers for monitoring systems. Pure. Not here: the counting (fetcher.py)."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from typing import Final

from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.groups.member_report import GroupStatistics
from penstock.client.metrics.client_metric import ClientMetric, Row, metrics_of
from penstock.client.metrics.recent_totals import Growth
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

LAGS_MAX: Final = 1_000
"""Partitions of one consumer whose lags are shown, the largest first: a monitoring system keeps a series of each."""


@dataclass(frozen=True, slots=True)
class RecentFetches:
    """Rates in a second, and averages, of the last 30 to 60 s."""

    requests: float = 0
    bytes_fetched: float = 0
    latency_avg_ms: float = 0
    size_avg_bytes: float = 0


@dataclass(frozen=True, slots=True)
class FetchStatistics:
    """Counts since the consumer was made.

    `bytes_from_followers` are part of `bytes_fetched`; `moves_to_followers` and `returns_to_leaders` count partitions:
    a leader has named a follower in the consumer's rack, or that follower could not serve.
    `throttle_time_ms`, `throttle_time_max_ms`: how long brokers made it wait because its quota was used up, in all and
    at most after one fetch. `latency_ms`: from a fetch to its answer, in all; a broker without new records waits in it.
    """

    requests: int = 0
    bytes_fetched: int = 0
    resets: int = 0
    leader_changes: int = 0
    broken_streams: int = 0
    silences: int = 0
    throttle_time_ms: int = 0
    throttle_time_max_ms: int = 0
    bytes_from_followers: int = 0
    moves_to_followers: int = 0
    returns_to_leaders: int = 0
    answers: int = 0
    latency_ms: int = 0
    latency_max_ms: int = 0
    recent: RecentFetches = RecentFetches()


FETCH_COUNTS: Final = tuple(name for name in FetchStatistics.__dataclass_fields__ if name != "recent")


def recent_fetches(growth: Growth) -> RecentFetches:
    return RecentFetches(
        growth.rate("requests"),
        growth.rate("bytes_fetched"),
        growth.mean("latency_ms", "answers"),
        growth.mean("bytes_fetched", "answers"),
    )


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Counts since the consumer was made."""

    records: int
    polls: int
    buffered_bytes: int
    fetch: FetchStatistics
    group: GroupStatistics | None = None
    records_per_second: float = 0
    records_per_poll: float = 0
    """Both of the last 30 to 60 s."""


def consumer_metrics(
    states: Mapping[TopicPartition, PartitionState],
    counts: ConsumerStatistics,
    labels: Mapping[str, str],
    connections: int,
) -> tuple[ClientMetric, ...]:
    """Totals, and the lag of each partition as far as it is known. In any thread: what is read changes meanwhile."""
    seen = tuple(states.items())
    known = {tp: lag for tp, state in seen if (lag := state.lag) is not None}
    fetch, group = counts.fetch, counts.group or GroupStatistics()
    at_followers = sum(state.is_at_follower for _, state in seen)
    average_ms = fetch.throttle_time_ms / max(fetch.requests, 1)
    rows = [
        Row("records-consumed-total", counts.records, "Records that polls have given."),
        Row("bytes-consumed-total", fetch.bytes_fetched, "Bytes of batches that were fetched."),
        Row("bytes-consumed-from-followers-total", fetch.bytes_from_followers, "Bytes of these from followers."),
        Row("follower-moves-total", fetch.moves_to_followers, "Partitions that a leader sent to a follower."),
        Row("leader-returns-total", fetch.returns_to_leaders, "Partitions whose follower could not serve."),
        Row("follower-partitions", at_followers, "Partitions that are read at followers now."),
        Row("fetch-total", fetch.requests, "Fetch requests that were sent."),
        Row("fetch-throttle-time-avg", average_ms, "Milliseconds of quota waits, for each fetch."),
        Row("fetch-throttle-time-max", fetch.throttle_time_max_ms, "Milliseconds of the longest quota wait."),
        Row("assigned-partitions", len(seen), "Partitions that the consumer reads."),
        Row("paused-partitions", sum(state.paused for _, state in seen), "Partitions that are paused."),
        Row("buffered-bytes", counts.buffered_bytes, "Bytes that were fetched, and that no poll has given yet."),
        Row("heartbeat-total", group.heartbeats, "Heartbeats to the group's coordinator."),
        Row("rebalance-total", group.rebalances, "Changes of what the group assigns to this consumer."),
        Row("commit-total", group.commits, "Commits of offsets."),
        Row("records-consumed-rate", counts.records_per_second, "Records that polls have given, in a second of late."),
        Row("bytes-consumed-rate", fetch.recent.bytes_fetched, "Bytes that were fetched, in a second of late."),
        Row("fetch-rate", fetch.recent.requests, "Fetch requests that were sent, in a second of late."),
        Row("fetch-latency-avg", fetch.recent.latency_avg_ms, "Milliseconds from a fetch to its answer, of late."),
        Row("fetch-latency-max", fetch.latency_max_ms, "Milliseconds of the slowest answer."),
        Row("fetch-size-avg", fetch.recent.size_avg_bytes, "Bytes of an answer to a fetch, of late."),
        Row("records-per-poll-avg", counts.records_per_poll, "Records of a poll, of late."),
        Row("connection-count", connections, "Brokers to which the client has a connection."),
    ]
    if known:
        rows.append(Row("records-lag-max", max(known.values()), "The largest known lag of a partition."))
    meaning = "Records of a partition that polls have not given yet; left out where it is not known."
    if len(known) > LAGS_MAX:
        known = dict(nlargest(LAGS_MAX, known.items(), key=lambda item: item[1]))
    of_partitions = (
        ClientMetric("records-lag", lag, {**labels, **_labels_of(tp)}, "consumer", meaning) for tp, lag in known.items()
    )
    return (*metrics_of("consumer", labels, rows), *of_partitions)


def _labels_of(tp: TopicPartition) -> dict[str, str]:
    return {"topic": tp.topic, "partition": str(tp.partition)}
