"""A consumer's numbers by the names that Kafka's consumer has. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.consumer.consumer_core import ConsumerStatistics
from penstock.client.consumer.partition_state import PartitionState
from penstock.types import TopicPartition


def consumer_metrics(states: Mapping[TopicPartition, PartitionState], counts: ConsumerStatistics) -> dict[str, int]:
    """Totals, and the lag of each partition as far as it is known."""
    known = {tp: lag for tp, state in states.items() if (lag := state.lag) is not None}
    group = counts.group
    return {
        "records-consumed-total": counts.records,
        "bytes-consumed-total": counts.fetch.bytes_fetched,
        "fetch-total": counts.fetch.requests,
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
