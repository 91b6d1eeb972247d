"""Reads the partitions of one fetch session, one after another, for the answer that is built.

The first records of an answer may exceed every limit, or a large batch would never get through; the later ones keep to
what is left of it (KIP-74). Records that have to be read from a disk are left out: a thread reads them, and they are
new again then (`cold_fetches.py`).

A copy for a replica that moves is held while the throttle has no room for it (`replication/move_throttle.py`); the
other partitions of the session are served meanwhile.

A reader of committed records is told of the aborted transactions among its records, and drops those itself.

A consumer that names a rack may be sent to a follower there, and then gets no records here; where this broker is that
follower, it serves the consumer up to its own high watermark (KIP-392: `read_replicas.py`, `follower_reads.py`).

Not here: which partitions are read, and in which order (session_partitions.py).
"""

from __future__ import annotations

from broker.apis.fetch_sessions.cold_fetches import ColdFetches
from broker.apis.fetch_sessions.watched_partition import GetPartition, WatchedPartition
from broker.network.request_ports import TopicRights
from broker.replication.follower.follower_reads import is_behind
from broker.replication.leader.leader_state import LeaderState
from broker.replication.leader.partition_watcher import PartitionWatcher
from broker.replication.leader.read_replica import ReadingClient
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from broker.replication.partition_reads import check_range, divergence, readable_end
from broker.replication.read_replicas import ReadReplicas
from penstock.base_error import without_frames
from penstock.clock import Clock
from penstock.errors import ApiError
from penstock.messages.fetch import AbortedTransaction, PartitionFetchResult
from penstock.messages.security.acls import Operation
from penstock.types import NO_LEADER, OffsetAndEpoch, TopicPartition
from storage.log.log_reader import Records


class SessionReads:
    """Lives as long as its session, which is the `watcher` of these partitions."""

    def __init__(
        self,
        get: GetPartition,
        clock: Clock,
        cold: ColdFetches,
        watcher: PartitionWatcher,
        throttle: MoveThrottle,
        readers: ReadReplicas,
    ) -> None:
        self._get, self._clock, self._cold, self._watcher = get, clock, cold, watcher
        self._throttle, self._readers = throttle, readers
        self._held: dict[TopicPartition, None] = {}
        self._copying = 0  # bytes for replicas that move, in the answer that is being built
        self._size = 0
        self._leased = 0
        self.replica_id, self.is_replica, self.read_committed = -1, False, False
        self.reader = ReadingClient()
        self.rights: TopicRights | None = None
        self.is_left_out = self.is_cut = False
        """The answer that is built has no room for records of the partition that was read last, or not for all."""
        self.is_behind = False
        """A consumer waits for the high watermark of this follower, among those of the answer that is built."""

    def is_for(self, replica_id: int, reader: ReadingClient, *, read_committed: bool) -> None:
        """The fetcher is this follower, or with -1 this consumer."""
        self.replica_id, self.is_replica, self.reader = replica_id, replica_id >= 0, reader
        self.read_committed = read_committed and replica_id < 0

    @property
    def serves_followed(self) -> bool:
        """True if the fetcher may read where this broker follows."""
        return not self.is_replica and self._readers.serves(self.reader)

    def begin_answer(self, leased: int) -> None:
        """`leased` bytes are counted for it already."""
        self._leased, self._size, self._copying = leased, 0, 0
        self.is_behind = False

    def read(self, watched: WatchedPartition, room: int) -> PartitionFetchResult | None:
        """The partition's result in an answer with `room` bytes left. None while its records are read from the disk, or
        held by the throttle: the result is in a later answer then."""
        result, watched.quiet = _empty(watched), None
        self.is_left_out = self.is_cut = False
        try:
            source, leading = self._check(watched, result)
            if watched.behind_since_ms is not None:
                self.is_behind = True
                return result
            if leading is not None and not self.is_replica:
                offset = watched.wanted.fetch_offset
                result.preferred_read_replica = self._readers.preferred(self.reader, source, leading, offset)
                if result.preferred_read_replica != NO_LEADER:
                    return result
            if result.diverging_epoch is None:
                found = self._records(watched, source, leading, room)
                if found is None:
                    return None
                result.records, size = found.records, len(found.records)
                if size and self.read_committed:
                    result.aborted = _aborted(source, watched.wanted.fetch_offset, found.next_offset)
                self._size += size
                self._copying += size if watched.is_copy else 0
        except ApiError as error:
            result.error = without_frames(error)
        return result

    def look(self, watched: WatchedPartition) -> PartitionFetchResult:
        """The partition's result without its records."""
        result = _empty(watched)
        try:
            source, _ = self._check(watched, result)
            if result.diverging_epoch is None and watched.behind_since_ms is None:
                check_range(source.log, watched.wanted.fetch_offset, self._bound(source))
        except ApiError as error:
            result.error = without_frames(error)
        return result

    def _check(self, watched: WatchedPartition, result: PartitionFetchResult) -> tuple[Partition, LeaderState | None]:
        """Everything but the records goes into `result`; the error that the partition has otherwise. There is no
        leader's state where this broker follows, and serves the consumer."""
        wanted = watched.wanted
        if self.rights is not None:
            refusal = self.rights.refusal(Operation.READ, wanted.partition.topic)
            if refusal is not None:
                raise refusal
        if watched.error is not None:
            raise watched.error
        source = watched.watch(self._get, self._watcher)
        watched.is_followed = source.leading is None and self.serves_followed
        leading = None
        if watched.is_followed:
            source.must_be_in_sync(wanted.current_leader_epoch)
        else:
            leading = source.leader_state(wanted.current_leader_epoch)
        result.high_watermark = source.high_watermark
        result.log_start_offset = source.log.log_start_offset
        diverging, position = watched.diverging, OffsetAndEpoch(wanted.fetch_offset, wanted.last_fetched_epoch)
        if not self.is_replica:
            result.last_stable_offset = source.last_stable_offset
            diverging = None if watched.is_followed else divergence(source.log, position)
        result.diverging_epoch = diverging
        self._note_behind(watched, source, position)
        return source, leading

    def _note_behind(self, watched: WatchedPartition, source: Partition, position: OffsetAndEpoch) -> None:
        """Notes since when the consumer is ahead of this follower's high watermark. OffsetNotAvailableError if it is to
        go on at the leader."""
        now_ms, since_ms = self._clock.now_ms(), watched.behind_since_ms
        behind_ms = 0 if since_ms is None else now_ms - since_ms
        if not watched.is_followed or not is_behind(source, position, behind_ms):
            watched.behind_since_ms = None
        elif since_ms is None:
            watched.behind_since_ms = now_ms

    def _records(
        self, watched: WatchedPartition, source: Partition, leading: LeaderState | None, room: int
    ) -> Records | None:
        wanted = watched.wanted
        if self._cold.is_awaited(wanted.partition):
            return None
        limit = min(room, wanted.max_bytes) if wanted.max_bytes > 0 else room
        cold = self._cold.found(wanted.partition)
        watched.is_copy = self.is_replica and leading is not None and leading.is_moving(self.replica_id)
        if watched.is_copy and cold is None:  # once it is read it goes out, and gives its place to other reads
            limit = min(limit, self._throttle.room(self._clock.now_ms()) - self._copying)
            if limit <= 0:
                self._held[wanted.partition] = None
                self._throttle.note_hold()
                return None
        is_first = not self._size
        if cold is not None and not is_first and cold.found_bytes > limit:
            self.is_left_out = True
            return Records(b"", wanted.fetch_offset)
        found = source.read(
            wanted.fetch_offset,
            limit,
            is_replica=self.is_replica,
            read_committed=self.read_committed,
            later=cold,
            min_one_batch=is_first,
        )
        if not isinstance(found, Records):
            self._copying += limit if watched.is_copy else 0
            self._cold.begin(
                wanted.partition, source.log.log_dir, found, is_replica=self.is_replica, answer_bytes=self._leased
            )
            return None
        if found.records:
            self.is_cut = found.next_offset < self._bound(source)
        elif not is_first:
            self.is_left_out = wanted.fetch_offset < self._bound(source)
        return found

    def _bound(self, source: Partition) -> int:
        return readable_end(
            source.log, source.high_watermark, is_replica=self.is_replica, read_committed=self.read_committed
        )

    # -- copies that the throttle has no room for ----------------------------------------------------------------------

    def spent(self, watched: WatchedPartition, result: PartitionFetchResult) -> None:
        """The result is in the answer that goes out now."""
        if watched.is_copy and result.records:
            self._throttle.spend(len(result.records), self._clock.now_ms())
        self._cold.drop(result.partition)
        if not self.is_replica:
            is_sent_away = result.preferred_read_replica != NO_LEADER
            size = len(result.records)
            self._readers.count(self.reader, size, is_followed=watched.is_followed, is_sent_away=is_sent_away)

    def held_ms(self) -> int:
        """How long the copies are held that the throttle has no room for; 0 if no copy is held."""
        return self._throttle.hold_ms(self._clock.now_ms()) if self._held else 0

    def release_held(self) -> dict[TopicPartition, None]:
        """Gives back the partitions whose copies were held: they are to be read again."""
        held, self._held = self._held, {}
        return held

    def forget(self, partition: TopicPartition) -> None:
        self._held.pop(partition, None)
        self._cold.drop(partition)

    def __repr__(self) -> str:
        return f"SessionReads(replica {self.replica_id}, {len(self._held)} held)"


def _aborted(source: Partition, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
    found = source.log.transactions.aborted(from_offset, to_offset)
    return [AbortedTransaction(one.producer_id, one.first_offset) for one in found]


def _empty(watched: WatchedPartition) -> PartitionFetchResult:
    wanted = watched.wanted
    return PartitionFetchResult(wanted.partition, wanted.topic_id, wanted.fetch_offset)
