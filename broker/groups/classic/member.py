"""One member of a classic group: what it told when it joined, its assignment, and its requests that wait.

Not here: its session's timer (rounds.py), and who it is to the group (group.py).
"""

from __future__ import annotations

from collections.abc import Container

from broker.coordination.turn import Client, Ticket
from broker.groups.records.classic_records import MemberMetadata
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.classic_protocol import JoinGroupProtocol


@dataclass(slots=True, eq=False)
class ClassicMember:
    """`protocols` are in the member's order of preference."""

    member_id: str
    group_instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """It has not been told its id yet, so it cannot send heartbeats."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def is_waiting(self) -> bool:
        """A member whose request waits here needs no heartbeat."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def metadata_of(self, protocol: str | None) -> bytes:
        """The member's subscription for one protocol; empty if it has not named that."""
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")

    def vote(self, candidates: Container[str]) -> str | None:
        """The candidate that it prefers."""
        return next((one.name for one in self.protocols if one.name in candidates), None)

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client.client_id,
            client_host=self.client.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata_of(protocol),
            assignment=assignment,
        )

    def says(self, record: MemberMetadata, protocol: str | None) -> bool:
        """The record has been made of this member; its assignment is not looked at."""
        return (
            (self.client.client_id, self.client.client_host) == (record.client_id, record.client_host)
            and self.group_instance_id == record.group_instance_id
            and self.session_timeout_ms == record.session_timeout
            and self.rebalance_timeout_ms == record.rebalance_timeout
            and any(one.name == protocol and one.metadata == record.subscription for one in self.protocols)
        )


def member_of_record(record: MemberMetadata, protocol: str | None) -> ClassicMember:
    """A loaded member knows the protocol that its group chose, and no other."""
    return ClassicMember(
        record.member_id,
        record.group_instance_id,
        Client(record.client_id, record.client_host),
        # records before version 1 have none
        record.session_timeout if record.rebalance_timeout < 0 else record.rebalance_timeout,
        record.session_timeout,
        () if protocol is None else (JoinGroupProtocol(protocol, bytes(record.subscription)),),
        bytes(record.assignment),
    )
