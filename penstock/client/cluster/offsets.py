"""Asks partition leaders for offsets: earliest, latest, largest timestamp, by time, and where a leader epoch ends.

Shared by Admin, Consumer and the Spark source. How leaders are found and asked again is by_leader.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.cluster.by_leader import (
    Answer,
    LeaderCall,
    LeaderQuestion,
    Round,
    ask_leaders,
    ask_leaders_once,
)
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_question import METADATA_ATTEMPT_MS
from penstock.client.wire.connection import Connection
from penstock.lazy_dataclass import dataclass
from penstock.messages.offsets import EpochPartition, ListOffsetsPartition
from penstock.types import EpochEndOffset, TopicPartition

Wanted = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetInfo:
    """The answer to 'which offset?': offset -1 when no record is that late."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: ClusterClient,
    wanted: Wanted,
    timeout_ms: int,
    topic_ids: Mapping[str, str] | None = None,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, OffsetInfo]:
    """The offset of each partition at its timestamp (or sentinel of penstock.types); `topic_ids` as in ask_leaders.
    `read_committed`: a log ends at its last stable offset."""
    return await ask_leaders(cluster, wanted, _asker(_attempt_ms(cluster), read_committed), timeout_ms, topic_ids)


async def list_offsets_once(
    cluster: ClusterClient, wanted: Wanted, *, read_committed: bool = False
) -> Round[OffsetInfo]:
    """The offsets that the leaders known now tell, each asked once. A leader that does not answer delays no other."""
    attempt_ms = _attempt_ms(cluster)
    return await ask_leaders_once(cluster, wanted, _asker(attempt_ms, read_committed), attempt_ms)


async def epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int], timeout_ms: int, topic_ids: Mapping[str, str]
) -> dict[TopicPartition, EpochEndOffset]:
    """The end of the largest epoch that is not above the given one, in the log of each partition's leader (KIP-320)."""
    attempt_ms = _attempt_ms(cluster)

    async def ask(
        connection: Connection, questions: Sequence[LeaderQuestion[int]], left_ms: int
    ) -> Sequence[Answer[EpochEndOffset]]:
        parts = [EpochPartition(q.partition, q.topic_id, q.wanted, q.leader_epoch) for q in questions]
        answers = await connection.epoch_ends(parts, min(left_ms, attempt_ms))
        return [Answer(r.partition, r.error, EpochEndOffset(r.leader_epoch, r.end_offset)) for r in answers]

    return await ask_leaders(cluster, epochs, ask, timeout_ms, topic_ids)


def _attempt_ms(cluster: ClusterClient) -> int:
    return min(METADATA_ATTEMPT_MS, cluster.config.request_timeout_ms)


def _asker(attempt_ms: int, read_committed: bool) -> LeaderCall[int, OffsetInfo]:
    async def ask(
        connection: Connection, questions: Sequence[LeaderQuestion[int]], left_ms: int
    ) -> Sequence[Answer[OffsetInfo]]:
        parts = [ListOffsetsPartition(q.partition, q.topic_id, q.wanted, q.leader_epoch) for q in questions]
        return [
            Answer(r.partition, r.error, OffsetInfo(r.offset, r.timestamp_ms, r.leader_epoch))
            for r in await connection.list_offsets(parts, min(left_ms, attempt_ms), read_committed=read_committed)
        ]

    return ask
