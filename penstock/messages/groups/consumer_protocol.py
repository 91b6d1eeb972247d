"""ConsumerGroupHeartbeat: the consumer protocol of groups (KIP-848)."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from penstock.lazy_dataclass import dataclass
from penstock.messages.fields import NOT_ON_WIRE, none_if

JOINS: Final = 0
"""The member epoch of a member that joins (KIP-848)."""
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""A static member comes back: its partitions stay its own for its session's time."""


@dataclass(frozen=True, slots=True)
class TopicIdPartitions:
    """Partitions of one topic, by its id."""

    topic_id: str
    partitions: tuple[int, ...]
    topic: str = ""
    """Its name, in answers that describe; empty where it is not told."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatRequest:
    """A None means: as before. The first heartbeat of a member says everything (KIP-848)."""

    group_id: str
    member_id: str
    member_epoch: int
    """0 joins, -1 leaves, -2 leaves for a while (a static member)."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = field(default=None, metadata=none_if("same_topic_names"))
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned_partitions: tuple[TopicIdPartitions, ...] | None = field(
        default=None, metadata=none_if("same_owned_partitions")
    )
    """The partitions that the member holds now: so it acknowledges an assignment, and that it gave partitions up."""
    client_id: str = ""
    """The name that its members are described with. Kafka's protocol has it in the header of every request."""
    may_make_member_id: bool = field(default=False, metadata=NOT_ON_WIRE)
    """The coordinator makes an id for a member that joins without one (version 0 of Kafka's API)."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatResponse:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicIdPartitions, ...] | None = field(default=None, metadata=none_if("same_assignment"))
    """The member's partitions; None: as before."""
