"""The partitions of one fetch session: what the fetcher wants of each, and which of them it has news of.

A request names only the partitions that changed, and the session remembers the others; a full one names them all, and
its answer has each of them (KIP-227). What is new is served in the order in which it became new, and a partition that
was served goes to the back: that is the rotation that keeps one busy partition from starving the others.

On a stream an answer arrives, or the stream ends: what was told is not told again before the fetcher asks for it, and a
partition with an error leaves the session. The answer to another session may be lost while the session lives. There,
records and errors are told again until the fetcher asks for another position, and only the fetcher removes a partition.

The position that a follower's request names counts as its acknowledgement, before anything is answered.

Not here: how a partition is read (`session_reads.py`), when an answer is built, and how large it may be
(`fetch_session.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.apis.fetch_sessions.cold_fetches import ColdFetches
from broker.apis.fetch_sessions.session_reads import SessionReads
from broker.apis.fetch_sessions.watched_partition import GetPartition, WatchedPartition
from broker.network.memory_budget import Account
from broker.network.request_ports import TopicRights
from broker.replication.leader.follower_fetch import doubt_records, note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.leader.partition_watcher import PartitionWatcher
from broker.replication.leader.read_replica import ReadingClient
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from broker.replication.read_replicas import ReadReplicas
from penstock.base_error import without_frames
from penstock.clock import Clock
from penstock.errors import ApiError, InvalidRequestError, ResourceExhaustedError, StaleBrokerEpochError
from penstock.messages.fetch import FetchPartition, FetchRequest, PartitionFetchResult
from penstock.messages.security.acls import Operation
from penstock.types import CLIENT_LISTENER, NO_LEADER, NO_OFFSET, TopicPartition

SESSION_PARTITIONS_MAX = 100_000
"""Partitions of one session."""
SESSION_PARTITION_BYTES = 800
"""The cost of one partition: its entry here, its names, and the session's place among the partition's watchers."""


class Collected(NamedTuple):
    """The results for an answer, and their record bytes."""

    results: list[PartitionFetchResult]
    size: int
    must_go: bool
    """A result must not wait, or no more fits into the answer."""


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
        readers: ReadReplicas,
        *,
        is_stream: bool = True,
    ) -> None:
        self._get = get
        self._clock = clock
        self._memory = memory
        self._cold = cold
        self._watcher = watcher
        self._is_stream = is_stream
        self._reads = SessionReads(get=get, clock=clock, cold=cold, watcher=watcher, throttle=throttle, readers=readers)
        self._remembered = memory.take(0)
        self._watched: dict[TopicPartition, WatchedPartition] = {}
        self._new: dict[TopicPartition, None] = {}
        self._broker_epoch = -1
        self._judged: object = None  # the version of the rights by which all partitions were judged last

    @property
    def is_replica(self) -> bool:
        """True if the fetcher is a follower."""
        return self._reads.is_replica

    def judged_by(self, rights: TopicRights | None) -> None:
        """The rights of the fetcher, at its newest request."""
        self._reads.rights = rights

    # -- what the fetcher wants ----------------------------------------------------------------------------------------

    def update(self, body: FetchRequest, listener: str = CLIENT_LISTENER) -> None:
        """The partitions that the request names, at their new positions, and without those that it forgets. `listener`
        is the fetcher's."""
        named = {wanted.partition: wanted for wanted in body.partitions} if body.is_full else {}
        if body.is_full:
            added = len(named) - len(self._watched)
        else:
            added = sum(wanted.partition not in self._watched for wanted in body.partitions)
        if len(self._watched) + added > SESSION_PARTITIONS_MAX:
            raise InvalidRequestError(f"fetch: more than {SESSION_PARTITIONS_MAX} partitions in one session")
        if added > 0 and body.replica_id < 0 and self._memory.room() < added * SESSION_PARTITION_BYTES:
            raise ResourceExhaustedError(
                "fetch sessions use all of fetch.sessions.max.bytes on this node, or half of it from your address;"
                " close a consumer, or raise it"
            )
        asker = body.replica_id, body.broker_epoch
        known = self._reads.replica_id, self._broker_epoch
        if self._watched and asker != known:
            # Partitions that the request does not name would keep the earlier epoch, and a caught-up follower that
            # registered anew could not join their ISRs. On a new stream the follower names all partitions.
            raise StaleBrokerEpochError(f"the session is of replica {known[0]}, epoch {known[1]}")
        self._broker_epoch = body.broker_epoch
        self._reads.is_for(body.replica_id, ReadingClient(body.rack_id, listener), read_committed=body.read_committed)
        if body.is_full:
            self._update_all(named)
        else:
            for partition in body.forgotten:
                self._forget(partition)
            for wanted in body.partitions:
                self._want(wanted)
        self._count_memory()

    def _update_all(self, named: dict[TopicPartition, FetchPartition]) -> None:
        """Replaces the session's partitions by exactly these, in this order; what is new among them is served in it,
        too. A partition that is asked for as before costs nothing."""
        before = self._watched
        for partition in [partition for partition in before if partition not in named]:
            self._forget(partition)
        self._watched = {}
        for partition, wanted in named.items():
            watched = before.get(partition)
            if watched is not None:
                self._watched[partition] = watched
            if watched is None or watched.wanted != wanted:
                self._want(wanted)
        self._new = {partition: None for partition in self._watched if partition in self._new}

    def _want(self, wanted: FetchPartition) -> None:
        partition = wanted.partition
        watched = self._watched.get(partition)
        if watched is None:
            watched = self._watched[partition] = WatchedPartition(wanted)
        watched.want(wanted)
        self._cold.keep_only(partition, wanted.fetch_offset)
        try:
            source = watched.watch(self._get, self._watcher)
            if self.is_replica:
                self._note_follower(watched, source)
        except ApiError as error:
            watched.error = without_frames(error)
        self._new.pop(partition, None)
        self._new[partition] = None

    def _note_follower(self, watched: WatchedPartition, source: Partition) -> None:
        wanted = watched.wanted
        self._maybe_doubt(watched, source)
        # A follower may have dropped an earlier answer: only its present request says what it has.
        watched.sent_high_watermark, watched.sent_log_start_offset = NO_OFFSET, wanted.log_start_offset
        watched.diverging = note_follower_fetch(
            source,
            self._reads.replica_id,
            self._broker_epoch,
            ReplicaPosition(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset),
            wanted.current_leader_epoch,
            self._clock.now_ms(),
        )

    def _maybe_doubt(self, watched: WatchedPartition, source: Partition) -> None:
        """A follower that asks again for records that it was sent may have got damaged ones. Once for each offset,
        because a full disk on the follower has the same effect."""
        offset = watched.wanted.fetch_offset
        if watched.sent_records_at == offset != watched.doubted_at:
            watched.doubted_at = offset
            doubt_records(source)

    def _forget(self, partition: TopicPartition) -> None:
        watched = self._watched.pop(partition, None)
        self._new.pop(partition, None)
        self._reads.forget(partition)
        if watched is not None:
            watched.unwatch(self._watcher)

    def _count_memory(self) -> None:
        self._remembered.resize(len(self._watched) * SESSION_PARTITION_BYTES)

    def find(self, partition: TopicPartition) -> FetchPartition | None:
        """The partition as the fetcher wants it; None if it is not in the session."""
        watched = self._watched.get(partition)
        return None if watched is None else watched.wanted

    def wanted(self) -> Iterator[FetchPartition]:
        """All that the fetcher wants."""
        return (watched.wanted for watched in self._watched.values())

    def in_trouble(self) -> list[FetchPartition]:
        """The partitions of which the last answer told an error."""
        return [
            watched.wanted
            for partition in self._new
            if (watched := self._watched.get(partition)) is not None and isinstance(watched.sent_trouble, type)
        ]

    # -- what is new for the fetcher -----------------------------------------------------------------------------------

    def note_news(self, partition: TopicPartition) -> None:
        self._new[partition] = None

    def held_ms(self) -> int:
        """How long the copies are held that the throttle has no room for; 0 if no copy is held."""
        return self._reads.held_ms()

    def release_held(self) -> bool:
        """Makes the partitions whose copies were held new again. True if there are any."""
        held = self._reads.release_held()
        self._new.update(held)
        return bool(held)

    def collect(self, room: int, leased: int) -> Collected:
        """Results for what is new. `leased` bytes are counted for this answer already."""
        results: list[PartitionFetchResult] = []
        size, must_go = 0, False
        self._judge_anew()
        self._doubt_followed()
        self._reads.begin_answer(leased)
        for partition in tuple(self._new):
            watched = self._watched.get(partition)
            if watched is None:
                del self._new[partition]
                continue
            if size and size >= room:
                must_go = True
                break
            result = self._reads.read(watched, room - size)
            if result is None:
                del self._new[partition]  # it is new again when its records are there
                continue
            must_go = must_go or self._reads.is_cut or self._reads.is_left_out
            if self._reads.is_left_out:
                continue
            if result.error is not None or result.diverging_epoch is not None:
                must_go = must_go or watched.has_new_trouble(result)
            elif result.preferred_read_replica != NO_LEADER:
                must_go = True
            elif not result.records and not watched.has_news(result):
                if watched.behind_since_ms is None:
                    del self._new[partition]
                continue
            must_go = must_go or self._is_late(watched, result)
            size += len(result.records)
            results.append(result)
        return Collected(results, size, must_go)

    def _judge_anew(self) -> None:
        """A right that was taken away is news of its partitions, though their logs have none."""
        rights = self._reads.rights
        if rights is None or self._judged is rights.version:
            return
        before, self._judged = self._judged, rights.version
        for partition in self._watched if before is not None else ():  # at first all of them are new
            if rights.refusal(Operation.READ, partition.topic) is not None:
                self._new.setdefault(partition)

    def _doubt_followed(self) -> None:
        """This broker may have to stop serving consumers where it follows: nothing else tells their partitions."""
        if not self._reads.reader.rack or self._reads.serves_followed:
            return
        for partition, watched in self._watched.items():
            if watched.is_followed:
                self._new.setdefault(partition)

    @property
    def is_behind(self) -> bool:
        """True if a partition of the last answer waits for this follower's high watermark: it is looked at again."""
        return self._reads.is_behind

    def _is_late(self, watched: WatchedPartition, result: PartitionFetchResult) -> bool:
        """True if the follower has not been told of the new log start, for which a deletion waits, or of the high
        watermark, for which consumers at followers wait."""
        if not self.is_replica or watched.source is None:
            return False
        leading = watched.source.leading
        if leading is not None and leading.has_readers_elsewhere:
            return watched.last_high_watermark < result.high_watermark or self._lacks_start(watched, result)
        return self._lacks_start(watched, result)

    def _lacks_start(self, watched: WatchedPartition, result: PartitionFetchResult) -> bool:
        return NO_OFFSET < watched.sent_log_start_offset < result.log_start_offset

    def sent(self, results: list[PartitionFetchResult]) -> None:
        """The fetcher is told these results now."""
        for result in results:
            partition = result.partition
            del self._new[partition]
            watched = self._watched[partition]
            watched.sent(result)
            self._reads.spent(watched, result)
            if self._is_stream and result.error is not None:
                self._forget(partition)
            elif watched.behind_since_ms is not None or (not self._is_stream and watched.is_sent_again(result)):
                watched.error = None  # it is looked at anew
                self._new[partition] = None
        self._count_memory()

    def complete(self, results: list[PartitionFetchResult]) -> list[PartitionFetchResult]:
        """The answer to a full request, which has these results: each of its partitions, in its order."""
        found = {result.partition: result for result in results}
        return [found.get(partition) or self._quiet(watched) for partition, watched in self._watched.items()]

    def _quiet(self, watched: WatchedPartition) -> PartitionFetchResult:
        """The result of a partition that has no news, or none for which the answer has room."""
        if watched.quiet is not None and watched.wanted.partition not in self._new:
            return watched.quiet
        result = self._reads.look(watched)
        if result.error is None and watched.wanted.partition not in self._new:
            watched.quiet = result
        return result

    def close(self) -> None:
        """The session is over."""
        self._remembered.release()
        for watched in self._watched.values():
            watched.unwatch(self._watcher)
        self._watched.clear()
        self._new.clear()
        self._reads.release_held()

    def __len__(self) -> int:
        return len(self._watched)

    def __repr__(self) -> str:
        return (
            f"SessionPartitions(replica {self._reads.replica_id}, {len(self._watched)} watched, {len(self._new)} new)"
        )
