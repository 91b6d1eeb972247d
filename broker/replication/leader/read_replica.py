"""Chooses the replica that a consumer is to read from: one in the consumer's rack, or the leader (KIP-392).

Pure. The leader chooses, because it alone knows how far each follower is. A follower is taken only if it is sure to
have the wanted offset: it is in sync, has fetched lately, and its log holds the offset. Of several the one that has
most is taken, and of equal ones the one that was caught up last; the id decides the rest, so that the choice is the
same each time. Not here: what is known of the brokers (`broker/replication/read_replicas.py`), and whether a follower
serves a consumer that comes (`follower/follower_reads.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.types import NO_LEADER


class ReadingClient(NamedTuple):
    """A consumer: the rack that it names ("" for none), and the listener by which it comes."""

    rack: str = ""
    listener: str = ""


class ReplicaView(NamedTuple):
    """A follower as its leader sees it. `log_start_offset` is -1 while it is not known."""

    broker_id: int
    rack: str
    log_start_offset: int
    log_end_offset: int
    last_caught_up_ms: int


def choose_replica(rack: str, leader_rack: str, offset: int, followers: Iterable[ReplicaView]) -> int:
    """The follower to read `offset` from; -1 for the leader. `followers` are in sync and in service, and have an
    address for this consumer."""
    if not rack or rack == leader_rack:
        return NO_LEADER
    fitting = [one for one in followers if one.rack == rack and one.log_start_offset <= offset <= one.log_end_offset]
    if not fitting:
        return NO_LEADER
    return max(fitting, key=lambda one: (one.log_end_offset, one.last_caught_up_ms, -one.broker_id)).broker_id
