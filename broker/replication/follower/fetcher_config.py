"""The settings of all fetchers of a node."""

from __future__ import annotations

from broker.config.node_config import NodeConfig
from penstock.lazy_dataclass import dataclass

SLOW_FLUSH_MS = 50
"""Flushed partitions wait this long for the others, to be fetched in one request; a good disk flushes faster."""


@dataclass(frozen=True, slots=True)
class FetcherConfig:
    """See the configuration's `replica.fetch.*`."""

    broker_id: int
    cluster_id: str
    wait_ms_max: int
    response_bytes_max: int
    partition_bytes_max: int
    backoff_ms: int
    bytes_min: int = 1
    slow_flush_ms: int = SLOW_FLUSH_MS
    serves_consumers: bool = False
    """Leaders may send consumers with racks here (KIP-392)."""


def fetcher_config(config: NodeConfig, cluster_id: str) -> FetcherConfig:
    """How this node's fetchers work."""
    return FetcherConfig(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        wait_ms_max=config.replica_fetch_wait_max_ms,
        response_bytes_max=config.replica_fetch_response_max_bytes,
        partition_bytes_max=config.replica_fetch_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        bytes_min=config.replica_fetch_min_bytes,
        serves_consumers=bool(config.replica_selector_class),
    )
