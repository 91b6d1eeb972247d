"""Where one partition is read: at its leader, or at the follower that the leader has named (KIP-392).

    from       to         when
    leader     follower   the leader names one in the reader's rack, and no return is to be waited out
    follower   leader     the follower refuses, is silent for SILENCE_MS (fetch_link.py), has gone, or left the ISR;
                          there is another leader epoch; metadata_max_age_ms is over

After a return that a follower has caused the reader stays at the leader for RETURN_MS, which doubles with each return
in a row up to RETURN_MS_MAX: the leader may name the same follower again at once, and a reader that goes to and fro
reads nothing. After RETURN_MS_MAX at one follower the count begins anew. Pure. Not here: who calls (positions.py).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.client.cluster.metadata_cache import Leader
from penstock.messages.metadata import PartitionInfo
from penstock.types import NO_LEADER

RETURN_MS, RETURN_MS_MAX = 1_000, 60_000
DOUBLINGS_MAX = 6


class NamedFollower(NamedTuple):
    """A follower that the leader of this epoch has named, and until when that counts."""

    node_id: int
    leader_epoch: int
    since_ms: int
    until_ms: int


class ReadPlace:
    """Used by the loop alone; other threads may look."""

    __slots__ = ("_partition_epoch", "_returns", "follower", "leader_alone_until_ms")

    def __init__(self) -> None:
        self.follower: NamedFollower | None = None
        self.leader_alone_until_ms = 0
        """The reader asks its leader as one that names no rack until then."""
        self._returns = 0
        self._partition_epoch: int | None = None  # as the metadata had it when the follower was named

    def source(self, leader: Leader, now_ms: int) -> int:
        """The node to ask now."""
        found = self.follower
        if found is None or found.leader_epoch != leader.epoch or found.until_ms <= now_ms:
            return leader.node_id
        return found.node_id

    def follower_id(self) -> int:
        """The follower that is read; -1 for none."""
        return self.follower.node_id if self.follower is not None else NO_LEADER

    def named(self, node_id: int, leader_epoch: int, now_ms: int, ms_max: int) -> bool:
        """The leader names a follower; True if the reader goes there now. It does so too where it was before its time
        was over, or another leader came: nobody asks there any more, and somebody must be told to."""
        if self.leader_alone_until_ms > now_ms:
            return False
        there = self.follower
        place = node_id, leader_epoch
        stays = there is not None and there.until_ms > now_ms and (there.node_id, there.leader_epoch) == place
        self.follower = NamedFollower(node_id, leader_epoch, now_ms, now_ms + ms_max)
        self._partition_epoch = None
        return not stays

    def has_left_isr(self, info: PartitionInfo) -> bool:
        """True if the metadata has dropped the follower from the ISR since it was named. The leader that named it may
        know more than metadata from before that."""
        if self._partition_epoch is None:
            self._partition_epoch = info.partition_epoch
        return info.partition_epoch > self._partition_epoch and self.follower_id() not in info.isr

    def go_back(self, now_ms: int) -> None:
        """The follower does not serve: the leader does from now on, and alone for a while."""
        if self.follower is None:
            return
        if now_ms - self.follower.since_ms >= RETURN_MS_MAX:
            self._returns = 0
        self.leader_alone_until_ms = now_ms + min(RETURN_MS << min(self._returns, DOUBLINGS_MAX), RETURN_MS_MAX)
        self._returns += 1
        self.follower = None

    def __repr__(self) -> str:
        return f"ReadPlace({self.follower or 'leader'})"
