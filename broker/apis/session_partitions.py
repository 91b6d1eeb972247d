"""The partitions of one fetch session: what the fetcher wants of each, what it has been told of it, and what is new.

A request names only the partitions that changed, and the session remembers the others (KIP-227). What is new is served
in the order in which it became new, and a partition that was served goes to the back: that is the rotation that keeps
one busy partition from starving the others.

The position that a follower's request names counts as its acknowledgement, before anything is answered. Records that
have to be read from a disk are left out: a thread reads them, and they are new again then (`cold_fetches.py`).

A copy for a replica that moves is held while the throttle has no room for it (`replication/move_throttle.py`); the
other partitions of the session are served meanwhile.

Not here: when an answer is built, and how large it may be (`fetch_session.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.apis.cold_fetches import ColdFetches
from broker.network.memory_budget import Account
from broker.replication.leader.follower_fetch import doubt_records, note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.leader.partition_watcher import PartitionWatcher
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    ResourceExhaustedError,
    StaleBrokerEpochError,
)
from penstock.messages.fetch import FetchPartition, FetchRequest, PartitionFetchResult
from penstock.tracebacks import without_frames
from penstock.types import NO_OFFSET, EpochEndOffset, OffsetAndEpoch, TopicPartition
from storage.segment.cold_read import ColdRead

SESSION_PARTITIONS_MAX = 100_000
"""Partitions of one session."""
SESSION_PARTITION_BYTES = 800
"""The cost of one partition: its entry here, its names, and the session's place among the partition's watchers."""

GetPartition = Callable[[TopicPartition, str], Partition]
"""`HostedPartitions.get`."""


@dataclass(slots=True)
class _Watched:
    """A partition of the session, and what the last answer told the fetcher of it."""

    wanted: FetchPartition
    diverging: EpochEndOffset | None = None
    error: ApiError | None = None
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    sent_records_at: int = -1
    doubted_at: int = -1
    source: Partition | None = None
    is_copy: bool = False
    """True if the records of the last look go to a replica that moves."""


class SessionPartitions:
    """Lives as long as its session, which is the `watcher` of these partitions."""

    def __init__(
        self,
        get: GetPartition,
        clock: Clock,
        memory: Account,
        cold: ColdFetches,
        watcher: PartitionWatcher,
        throttle: MoveThrottle,
    ) -> None:
        self._get = get
        self._clock = clock
        self._memory = memory
        self._cold = cold
        self._watcher = watcher
        self._remembered = memory.take(0)
        self._watched: dict[TopicPartition, _Watched] = {}
        self._new: dict[TopicPartition, None] = {}
        self._throttle = throttle
        self._held: dict[TopicPartition, None] = {}
        self._copying = 0  # bytes for replicas that move, in the answer that is being built
        self._replica_id = -1
        self._broker_epoch = -1

    @property
    def is_replica(self) -> bool:
        """True if the fetcher is a follower."""
        return self._replica_id >= 0

    # -- what the fetcher wants ----------------------------------------------------------------------------------------

    def update(self, body: FetchRequest) -> None:
        """The partitions that the request names, at their new positions, and without those that it forgets."""
        added = sum(wanted.partition not in self._watched for wanted in body.partitions)
        if len(self._watched) + added > SESSION_PARTITIONS_MAX:
            raise InvalidRequestError(f"fetch: more than {SESSION_PARTITIONS_MAX} partitions in one session")
        if added and body.replica_id < 0 and self._memory.room() < added * SESSION_PARTITION_BYTES:
            raise ResourceExhaustedError(
                "fetch sessions use all of fetch.sessions.max.bytes on this node, or half of it from your address;"
                " close a consumer, or raise it"
            )
        asker = body.replica_id, body.broker_epoch
        if self._watched and asker != (self._replica_id, self._broker_epoch):
            # Partitions that the request does not name would keep the earlier epoch, and a caught-up follower that
            # registered anew could not join their ISRs. On a new stream the follower names all partitions.
            raise StaleBrokerEpochError(f"the session is of replica {self._replica_id}, epoch {self._broker_epoch}")
        self._replica_id, self._broker_epoch = asker
        for partition in body.forgotten:
            self._forget(partition)
        for wanted in body.partitions:
            self._want(wanted)
        self._count_memory()

    def _want(self, wanted: FetchPartition) -> None:
        partition = wanted.partition
        watched = self._watched.get(partition)
        if watched is None:
            watched = self._watched[partition] = _Watched(wanted)
        watched.wanted, watched.error, watched.diverging = wanted, None, None
        self._cold.keep_only(partition, wanted.fetch_offset)
        try:
            watched.source = self._source(watched)
            if self.is_replica:
                self._maybe_doubt(watched, watched.source)
                # A follower may have dropped an earlier answer: only its present request says what it has.
                watched.sent_high_watermark, watched.sent_log_start_offset = NO_OFFSET, wanted.log_start_offset
                watched.diverging = note_follower_fetch(
                    watched.source,
                    self._replica_id,
                    self._broker_epoch,
                    ReplicaPosition(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset),
                    wanted.current_leader_epoch,
                    self._clock.now_ms(),
                )
        except ApiError as error:
            watched.error = without_frames(error)
        self._new.pop(partition, None)
        self._new[partition] = None

    def _maybe_doubt(self, watched: _Watched, source: Partition) -> None:
        """A follower that asks again for records that it was sent may have got damaged ones. Once for each offset,
        because a full disk on the follower has the same effect."""
        offset = watched.wanted.fetch_offset
        if watched.sent_records_at == offset != watched.doubted_at:
            watched.doubted_at = offset
            doubt_records(source)

    def _source(self, watched: _Watched) -> Partition:
        """The hosted partition, watched by this session from now on."""
        wanted = watched.wanted
        source = self._get(wanted.partition, wanted.topic_id)
        if watched.source is not source:
            if watched.source is not None:
                watched.source.watchers.pop(self._watcher, None)
            source.watchers[self._watcher] = None
        return source

    def _forget(self, partition: TopicPartition) -> None:
        watched = self._watched.pop(partition, None)
        self._new.pop(partition, None)
        self._held.pop(partition, None)
        self._cold.drop(partition)
        if watched is not None and watched.source is not None:
            watched.source.watchers.pop(self._watcher, None)

    def _count_memory(self) -> None:
        self._remembered.resize(len(self._watched) * SESSION_PARTITION_BYTES)

    # -- what is new for the fetcher -----------------------------------------------------------------------------------

    def note_news(self, partition: TopicPartition) -> None:
        self._new[partition] = None

    def held_ms(self) -> int:
        """How long the copies are held that the throttle has no room for; 0 if there are none."""
        return self._throttle.hold_ms(self._clock.now_ms()) if self._held else 0

    def release_held(self) -> bool:
        """They are new again; whether there are any."""
        self._new.update(self._held)
        found = bool(self._held)
        self._held.clear()
        return found

    def collect(self, room: int, leased: int) -> tuple[list[PartitionFetchResult], int, bool]:
        """Results for what is new, their record bytes, and whether one of them must not wait. `leased` bytes are
        counted for this answer already."""
        results: list[PartitionFetchResult] = []
        size, urgent, self._copying = 0, False, 0
        for partition in tuple(self._new):
            watched = self._watched.get(partition)
            if watched is None:
                del self._new[partition]
                continue
            if size and size >= room:
                break
            result = self._read(watched, room - size, leased)
            if result is None:
                del self._new[partition]  # it is new again when its records are there
                continue
            if result.error is not None or result.diverging_epoch is not None:
                urgent = True
            elif not result.records and not self._has_news(watched, result):
                del self._new[partition]
                continue
            urgent = urgent or self._is_late(watched, result)
            size += len(result.records)
            results.append(result)
        return results, size, urgent

    def _read(self, watched: _Watched, room: int, leased: int) -> PartitionFetchResult | None:
        """None while its records are read from the disk, or held by the throttle: it is in a later answer then."""
        wanted = watched.wanted
        result = PartitionFetchResult(wanted.partition, wanted.topic_id, wanted.fetch_offset)
        try:
            if watched.error is not None:
                raise watched.error
            source = watched.source = self._source(watched)
            leading = source.leader_state(wanted.current_leader_epoch)
            result.high_watermark = source.high_watermark
            result.log_start_offset = source.log.log_start_offset
            diverging = watched.diverging
            if not self.is_replica:
                diverging = source.diverging_epoch(OffsetAndEpoch(wanted.fetch_offset, wanted.last_fetched_epoch))
            if diverging is not None:
                result.diverging_epoch = diverging
            else:
                if self._cold.is_awaited(wanted.partition):
                    return None
                limit = min(room, wanted.max_bytes) if wanted.max_bytes > 0 else room
                cold = self._cold.found(wanted.partition)
                watched.is_copy = self.is_replica and leading.is_moving(self._replica_id)
                if watched.is_copy and cold is None:  # once it is read it goes out, and gives its place to other reads
                    limit = min(limit, self._throttle.room(self._clock.now_ms()) - self._copying)
                    if limit <= 0:
                        self._held[wanted.partition] = None
                        self._throttle.note_hold()
                        return None
                found = source.read(wanted.fetch_offset, limit, is_replica=self.is_replica, cold=cold)
                if isinstance(found, ColdRead):
                    self._copying += limit if watched.is_copy else 0
                    log_dir, is_replica = source.log.log_dir, self.is_replica
                    self._cold.begin(wanted.partition, log_dir, found, is_replica=is_replica, answer_bytes=leased)
                    return None
                result.records = found
                self._copying += len(found) if watched.is_copy else 0
        except ApiError as error:
            result.error = without_frames(error)
        return result

    def _has_news(self, watched: _Watched, result: PartitionFetchResult) -> bool:
        told = watched.sent_high_watermark, watched.sent_log_start_offset
        return told != (result.high_watermark, result.log_start_offset)

    def _is_late(self, watched: _Watched, result: PartitionFetchResult) -> bool:
        """True if the follower has not been told of the new log start: a deletion waits for it."""
        known = watched.sent_log_start_offset
        return self.is_replica and NO_OFFSET < known < result.log_start_offset

    def sent(self, results: list[PartitionFetchResult]) -> None:
        """The fetcher is told these results now; a partition with an error leaves the session."""
        for result in results:
            del self._new[result.partition]
            watched = self._watched[result.partition]
            watched.sent_high_watermark = result.high_watermark
            watched.sent_log_start_offset = result.log_start_offset
            watched.sent_records_at = result.fetch_offset if result.records else NO_OFFSET
            if watched.is_copy and result.records:
                self._throttle.spend(len(result.records), self._clock.now_ms())
            self._cold.drop(result.partition)
            if result.error is not None:
                self._forget(result.partition)
        self._count_memory()

    def close(self) -> None:
        """The stream is gone."""
        self._remembered.release()
        for watched in self._watched.values():
            if watched.source is not None:
                watched.source.watchers.pop(self._watcher, None)
        self._watched.clear()
        self._new.clear()
        self._held.clear()

    def __repr__(self) -> str:
        return f"SessionPartitions(replica {self._replica_id}, {len(self._watched)} watched, {len(self._new)} new)"
