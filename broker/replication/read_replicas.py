"""Says where consumers with racks read, at one broker: which follower the leader names, and whether a follower serves.

Both are so only with `replica.selector.class` set at the broker that is asked, and while that broker hears from the
quorum: it would not be told that a follower has left the ISR, or that there is another leader. A follower is named only
if the metadata has it in the ISR and in service, the leader does not want to drop it, it says with its fetches that it
serves consumers, and it has sent one lately: one that was killed or hangs is in the ISR for a while.

Also counts what consumers are sent, by whom and across which racks. Not here: the choice (`leader/read_replica.py`),
offsets (`follower/follower_reads.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.leader_state import LeaderState
from broker.replication.leader.read_replica import ReadingClient, ReplicaView, choose_replica
from broker.replication.partition import Partition
from metadata.registrations import BrokerRegistration
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, measured
from penstock.types import NO_LEADER


@measured
class ReaderStatistics:
    """The consumers of this broker, since its start."""

    follower_bytes_out: int = counter(
        "penstock_follower_bytes_out", "Record bytes sent to consumers of partitions that this broker follows."
    )
    cross_rack_bytes_out: int = counter(
        "penstock_cross_rack_bytes_out", "Record bytes sent to consumers that named another rack than the broker's."
    )
    readers_sent_away: int = counter(
        "penstock_readers_sent_to_followers", "Answers that named a follower in the consumer's rack."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReplicaLimits:
    """Times after which nobody reads at a follower any more."""

    follower_silence_ms: int
    """A follower that has not fetched for so long is not named."""
    quorum_silence_ms: int
    """A broker that has not heard from the quorum for so long names no follower, and serves no consumer as one."""


class ReadReplicas:
    """There is one per broker, on the event loop."""

    def __init__(
        self,
        rack: str,
        find_broker: Callable[[int], BrokerRegistration | None],
        contacts: FollowerContacts,
        quorum_silent_ms: Callable[[], int],
        limits: ReadReplicaLimits | None,
    ) -> None:
        """`rack` is this broker's; `find_broker` looks into the newest metadata. Without limits consumers read from
        leaders alone."""
        self._rack, self._find_broker, self._contacts = rack, find_broker, contacts
        self._quorum_silent_ms, self._limits = quorum_silent_ms, limits
        self._follower_bytes_out = self._cross_rack_bytes_out = self._sent_away = 0

    def serves(self, reader: ReadingClient) -> bool:
        """True if this broker, as a follower, serves such a consumer."""
        return bool(reader.rack) and self._hears(self._limits)

    def _hears(self, limits: ReadReplicaLimits | None) -> bool:
        return limits is not None and self._quorum_silent_ms() <= limits.quorum_silence_ms

    def preferred(self, reader: ReadingClient, partition: Partition, leading: LeaderState, offset: int) -> int:
        """The follower that the leader names for the offset; -1 if it serves the consumer itself. From the first one on
        that was named, followers hear at once of each rise of the high watermark."""
        limits = self._limits
        if limits is None or not reader.rack or reader.rack == self._rack:
            return NO_LEADER
        if not partition.log.log_start_offset <= offset <= partition.high_watermark or not self._hears(limits):
            return NO_LEADER
        found = choose_replica(reader.rack, self._rack, offset, self._views(reader, leading, limits))
        if found != NO_LEADER:
            leading.has_readers_elsewhere = True
        return found

    def _views(self, reader: ReadingClient, leading: LeaderState, limits: ReadReplicaLimits) -> Iterator[ReplicaView]:
        for member in leading.certain_isr:
            follower, broker = leading.followers.get(member), self._find_broker(member)
            if follower is None or broker is None or not broker.is_active or broker.rack != reader.rack:
                continue
            if broker.endpoint_at(reader.listener) is None:
                continue
            if not self._contacts.serves_consumers(member):
                continue  # it would refuse them, and a client of Kafka would come back again and again
            if self._contacts.silent_ms(member) > limits.follower_silence_ms:
                continue
            yield ReplicaView(
                member, broker.rack, follower.log_start_offset, follower.log_end_offset, follower.last_caught_up_ms
            )

    def count(self, reader: ReadingClient, size_bytes: int, *, is_followed: bool, is_sent_away: bool) -> None:
        """A consumer is sent so many bytes of a partition, or to a follower."""
        self._sent_away += is_sent_away
        if is_followed:
            self._follower_bytes_out += size_bytes
        if reader.rack and self._rack and reader.rack != self._rack:
            self._cross_rack_bytes_out += size_bytes

    def statistics(self) -> ReaderStatistics:
        return ReaderStatistics(self._follower_bytes_out, self._cross_rack_bytes_out, self._sent_away)

    def __repr__(self) -> str:
        return f"ReadReplicas(rack {self._rack!r}, {'racks' if self._limits else 'leaders alone'})"
