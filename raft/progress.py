"""Computes the high watermark, and contact with a quorum, from the fetches of the replicas.

`acked_offset` is the offset of a replica's last good fetch: everything below is durable there. The rules that decide
what is committed are functions of a few lines each, so that they can be read and tested alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET


@dataclass(slots=True, eq=False)
class ReplicaProgress:
    """One other node, as the leader knows it; equal to itself alone."""

    replica_id: int
    directory_id: str = ""  # of the disk that fetches; "" from an older node
    supports: str = ""  # as its last fetch said; "" from an older node
    last_fetch_ms: int | None = None
    heard_ms: int = 0  # it followed this leader at this time of the leader's clock, or later
    acked_offset: int = NO_OFFSET
    last_caught_up_ms: int | None = None
    last_ack_ms: int = 0
    last_ack_leader_end_offset: int = NO_OFFSET  # the leader's log ended there when that ack came
    sent_high_watermark: int = NO_OFFSET
    begin_at_ms: int | None = None  # when to tell it again who leads; None: the notice is under way
    begin_failures: int = 0
    incarnation_id: str = ""  # of the process that was sent something last; an older node names none
    sent_end: int = 0  # that process may have been sent every record below, other processes of the node those
    sent_end_of_others: int = 0
    acked_by: tuple[str, str] = ("", "")  # the process that fetched last, and its disk
    acked_by_before: tuple[str, str] = ("", "")  # the one before

    def has_lost_acks(self, process: tuple[str, str], offset: int) -> bool:
        """True if a new process, named with its disk, fetches from an offset below the one that this disk had acked to
        this leader. The late fetch of an earlier process says nothing; nor does an older node, which names none."""
        if not process[0] or process in (self.acked_by, self.acked_by_before):
            return False
        is_same_disk = process[1] == self.acked_by[1]
        self.acked_by_before, self.acked_by = self.acked_by, process
        return is_same_disk and offset < self.acked_offset

    def note_acked(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A good fetch has come: everything below its offset is durable there.

        It has caught up now, if that is the leader's end; at its fetch before, if the leader's log ended there then (as
        in Kafka). Else a replica that is always one record behind would never have caught up under steady writing.
        """
        self.acked_offset = offset
        if offset == leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif NO_OFFSET < self.last_ack_leader_end_offset <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms or 0, self.last_ack_ms)
        self.last_ack_leader_end_offset, self.last_ack_ms = leader_end_offset, now_ms

    def note_sent(self, incarnation_id: str, end_offset: int) -> None:
        """A process of the node is about to be sent records, all of them below `end_offset`."""
        if incarnation_id != self.incarnation_id:
            self.sent_end_of_others = max(self.sent_end_of_others, self.sent_end)
            self.incarnation_id, self.sent_end = incarnation_id, 0
        self.sent_end = max(self.sent_end, end_offset)

    def sent_end_besides(self, incarnation_id: str) -> int:
        """The end of what any process of the node but this one may have been sent. Never too low: where processes
        take turns, this one's own part counts too."""
        if incarnation_id and incarnation_id == self.incarnation_id:
            return self.sent_end_of_others
        return max(self.sent_end_of_others, self.sent_end)


def majority_offset(acked_offsets: Sequence[int], majority: int) -> int:
    """The largest offset below which everything is durable on a majority."""
    return sorted(acked_offsets, reverse=True)[majority - 1]


def committed_offset(majority_acked: int, epoch_start_offset: int, high_watermark: int) -> int:
    """The high watermark that a majority's acks allow.

    Only a record of the leader's own epoch commits by counting, and all before it with it (Ongaro and Ousterhout,
    ATC'14, §5.4.2): so nothing moves until the majority holds the LeaderChange record at `epoch_start_offset`.
    """
    return majority_acked if majority_acked > epoch_start_offset else high_watermark


def quorum_contact_ms(last_contacts_ms: Sequence[int], others_needed: int) -> int:
    """The last time at which a majority (the leader and `others_needed` voters) was in contact."""
    return sorted(last_contacts_ms, reverse=True)[others_needed - 1]
