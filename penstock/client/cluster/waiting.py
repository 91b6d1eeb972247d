"""The things that a client waits for, for people: each with the partitions that wait for it.

A client that makes no progress retries in silence until a time-out ends that. `waiting_for` of producers and consumers
says meanwhile what is missing. Not here: what a producer or a consumer looks at (producer/stalled.py,
consumer/fetching/partition_state.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.cluster.metadata_cache import Leader, MetadataCache
from penstock.errors import ApiError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Waiting:
    """Partitions that wait for the same thing; none for a client that waits as a whole."""

    partitions: tuple[TopicPartition, ...]
    reason: str

    def __str__(self) -> str:
        if not self.partitions:
            return self.reason
        named = ", ".join(map(str, self.partitions[:NAMED_MAX]))
        more = len(self.partitions) - NAMED_MAX
        return f"{named}{f' and {more} more' if more > 0 else ''}: {self.reason}"


def grouped(found: Iterable[tuple[TopicPartition, tuple[object, ...], str]]) -> tuple[Waiting, ...]:
    """One `Waiting` for each key, in order; the reason is that of its first partition."""
    reasons: dict[tuple[object, ...], str] = {}
    partitions: dict[tuple[object, ...], list[TopicPartition]] = {}
    for tp, key, reason in found:
        reasons.setdefault(key, reason)
        partitions.setdefault(key, []).append(tp)
    return tuple(Waiting(tuple(sorted(partitions[key])), reason) for key, reason in reasons.items())


def broker_name(leader: Leader, cache: MetadataCache) -> str:
    """A broker and its address."""
    endpoint = cache.endpoint(leader.node_id)
    return f"broker {leader.node_id}" + (f" at {endpoint}" if endpoint is not None else "")


def no_leader(tp: TopicPartition, cache: MetadataCache) -> str:
    """Says that no leader is known, and why, as far as the metadata tells."""
    if cache.topic(tp.topic) is None:
        return f"topic {tp.topic!r} does not exist any more: was it deleted?"
    return cache.why_offline(tp) or cache.silence() or "no leader is known; the metadata is asked for again"


def error_text(error: PenstockError) -> str:
    return f"{error.kafka_name}: {error}" if isinstance(error, ApiError) else str(error)
