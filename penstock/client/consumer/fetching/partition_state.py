"""The state of one partition at its reader: where it stands, what it asks for, what stopped it, and why it gets no
answer.

Two threads use a state: the loop fetches, the user's thread takes. Each field has one writer, so no lock is needed: the
loop begins generations (`start`), the user's thread says how far it has read in one (`read`) and where it had to stop
(`failed`). A partition whose broker answers, and has no new record, waits for nobody: `consumer_waits` leaves it out.
Pure; when a state changes is decided in positions.py and reader.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.cluster.waiting import Waiting, broker_name, error_text, grouped, no_leader
from penstock.client.consumer.fetching.read_place import ReadPlace
from penstock.errors import LogTruncationError, PenstockError
from penstock.messages.fetch import FetchPartition
from penstock.position import Position
from penstock.types import NO_EPOCH, NO_LEADER, NO_OFFSET, CommittedOffset, TopicPartition


class GenerationOffset(NamedTuple):
    """An offset within one generation of a partition, and the leader epoch of the record before it."""

    generation: int
    offset: int
    leader_epoch: int = NO_EPOCH


class ReadFailure(NamedTuple):
    """The user's thread met this error in this generation; nothing behind it is handed over."""

    generation: int
    error: PenstockError


class PartitionState:
    """One assigned partition. The user's thread writes `read`, `read_before`, `failed`, `paused` and `is_held`, the
    loop all else."""

    __slots__ = (
        "asked_epoch",
        "asked_node",
        "end_offset",
        "epoch_max",
        "failed",
        "failures",
        "fetch_offset",
        "halted",
        "is_given",
        "is_held",
        "is_new_to_group",
        "is_of_group",
        "last_error",
        "last_fetched_epoch",
        "log_start_offset",
        "not_before_ms",
        "own_commit",
        "paused",
        "place_of_reading",
        "read",
        "read_before",
        "readable_end",
        "readable_end_epoch",
        "reset_timestamp",
        "skips_what_is_there",
        "start",
        "topic_id",
        "topic_partition",
        "unknown_since_ms",
    )

    def __init__(self, tp: TopicPartition, generation: int) -> None:
        self.topic_partition = tp
        self.topic_id = ""  # the topic that the position belongs to; empty until the metadata tells it
        self.is_given = False  # the user gave the topic id with the position, and no answer has confirmed it yet
        self.start = GenerationOffset(generation, NO_OFFSET)  # where this generation begins; the newest counts
        self.read = self.start  # how far the user has got; counts while its generation is the newest
        self.read_before: GenerationOffset | None = None  # as `read` was, if the last turn gave something of this
        self.failed: ReadFailure | None = None  # counts while its generation is the newest
        self.paused = False  # nothing is fetched or handed over; the position stays
        self.is_held = False  # the reader has pieces from before a pause: they come before anything more is fetched
        self.own_commit: CommittedOffset | None = None  # a transaction of this program has committed it
        self.is_of_group = False  # its group assigned it, and takes it away when its topic is deleted
        self.is_new_to_group = False  # its group has committed nothing, and where its log ends is looked up
        self.skips_what_is_there = False  # reading begins there, behind records that the group has not read
        self.fetch_offset = NO_OFFSET
        self.end_offset: int | None = None  # nothing from here on is asked for
        self.epoch_max = NO_EPOCH  # of a range: no record below its end may be of a later epoch; -1: not known
        self.last_fetched_epoch = NO_EPOCH
        self.reset_timestamp: int | None = None  # a sentinel or a time: the position is to be looked up
        self.halted = False  # an error was reported; nothing is fetched until a seek
        self.readable_end = NO_OFFSET  # the high watermark, or to a reader of committed records the last stable offset
        self.readable_end_epoch = NO_EPOCH  # the leader epoch in which that was told
        self.place_of_reading = ReadPlace()  # the leader, or a follower that it has named
        self.asked_node, self.asked_epoch = NO_LEADER, NO_EPOCH  # who was asked last, in which leader epoch
        self.log_start_offset = NO_OFFSET
        self.not_before_ms = 0
        self.failures = 0
        self.last_error: PenstockError | None = None  # of the last failure; counts while there are any
        self.unknown_since_ms: int | None = None

    def begin(
        self, generation: int, offset: int, leader_epoch: int = NO_EPOCH, reset_timestamp: int | None = None
    ) -> None:
        """A new generation begins at an offset, or with a look-up. BEFORE the topic id changes, if it does: see
        `place`."""
        self.start = GenerationOffset(generation, offset, leader_epoch)
        self.is_given = False
        self.fetch_offset = offset
        self.last_fetched_epoch = leader_epoch
        self.reset_timestamp = reset_timestamp
        self.is_new_to_group = self.skips_what_is_there = False
        self.halted = False
        self.readable_end, self.readable_end_epoch = NO_OFFSET, NO_EPOCH
        self.not_before_ms = self.failures = 0
        self.unknown_since_ms = None

    @property
    def generation(self) -> int:
        return self.start.generation

    @property
    def position(self) -> int:
        """The next offset that the user gets; -1 while it is not known."""
        start, read = self.start, self.read
        return read.offset if read.generation == start.generation else start.offset

    @property
    def place(self) -> Position | None:
        """The position as a value that can be kept; None while it, or the id of its topic, is not known."""
        return self._place_of(self.read)

    @property
    def place_before(self) -> Position | None:
        """The place before the last turn: what it gave may still be in work."""
        return self._place_of(self.read_before or self.read)

    def _place_of(self, read: GenerationOffset) -> Position | None:
        while True:
            start, topic_id = self.start, self.topic_id
            if self.start is start:  # else the loop has begun a generation, maybe of another topic of the name
                break
        _, offset, leader_epoch = read if read.generation == start.generation else start
        return Position(topic_id, offset, leader_epoch) if topic_id and offset >= 0 else None

    @property
    def failure(self) -> PenstockError | None:
        """The error that stopped the user here; a seek goes past it."""
        failed = self.failed
        return failed.error if failed is not None and failed.generation == self.generation else None

    @property
    def is_stopped(self) -> bool:
        """True if an error ended fetching until the next seek."""
        return self.halted or self.failure is not None

    @property
    def lag(self) -> int | None:
        """How many offsets the user is behind the readable end, by the leader's last answer; None before one."""
        position, end = self.position, self.readable_end
        return max(end - position, 0) if position >= 0 and end >= 0 else None

    @property
    def is_at_end(self) -> bool:
        """True if all that is wanted of a bounded range was fetched."""
        return self.end_offset is not None and self.fetch_offset >= self.end_offset

    @property
    def is_at_follower(self) -> bool:
        """True if it is read at a follower that the leader has named."""
        return self.place_of_reading.follower is not None

    def note_end(self, end: int) -> None:
        """An answer tells where the readable part ends. A follower may know less than the leader has told before: in
        one leader epoch the end never goes back."""
        self.readable_end = end if self.asked_epoch > self.readable_end_epoch else max(end, self.readable_end)
        self.readable_end_epoch = self.asked_epoch

    def question(self, node_id: int, leader_epoch: int, max_bytes: int) -> FetchPartition:
        """The question to this node, the leader of this epoch or a follower of it."""
        self.asked_node, self.asked_epoch = node_id, leader_epoch
        epochs = leader_epoch, self.last_fetched_epoch
        return FetchPartition(self.topic_partition, self.topic_id, self.fetch_offset, *epochs, NO_OFFSET, max_bytes)

    def truncated_at(self, offset: int) -> LogTruncationError:
        """The error of records that were fetched and are not in the leader's log, which diverges there (KIP-320)."""
        tp, position = self.topic_partition, self.fetch_offset
        return LogTruncationError(
            f"{tp}: the log was truncated below position {position}; it diverges at offset {offset} or before",
            topic=tp.topic,
            partition=tp.partition,
            position=position,
            divergent_offset=offset,
        )

    def replaced_at(self, offset: int, epoch: int) -> LogTruncationError:
        """The error of a record of a range that was planned in an earlier epoch than the record's own."""
        tp = self.topic_partition
        return LogTruncationError(
            f"{tp}: the record at offset {offset} is of leader epoch {epoch}, and the range's end {self.end_offset} was"
            f" seen in epoch {self.epoch_max}: the log was truncated and written again from there",
            topic=tp.topic,
            partition=tp.partition,
            position=self.fetch_offset,
            divergent_offset=offset,
        )

    def __repr__(self) -> str:
        return f"PartitionState({self.topic_partition}, position={self.position}, fetch_offset={self.fetch_offset})"


def consumer_waits(
    states: Iterable[PartitionState], cache: MetadataCache, troubles: Mapping[int, str]
) -> tuple[Waiting, ...]:
    """`troubles`: of the brokers whose fetches fail or are late, what is wrong."""
    return grouped(_each(states, cache, troubles))


def _each(
    states: Iterable[PartitionState], cache: MetadataCache, troubles: Mapping[int, str]
) -> Iterator[tuple[TopicPartition, tuple[object, ...], str]]:
    for state in states:
        if state.is_stopped or state.is_at_end or state.paused:
            continue
        tp, leader = state.topic_partition, cache.leader(state.topic_partition)
        if leader is not None and state.is_at_follower:
            leader = leader._replace(node_id=state.place_of_reading.follower_id())
        if leader is None:
            yield tp, ("leader",), no_leader(tp, cache)
        elif leader.node_id in troubles:
            yield tp, ("broker", leader.node_id), f"{broker_name(leader, cache)}: {troubles[leader.node_id]}"
        elif state.failures and state.last_error is not None:
            text = f"the next attempt at {broker_name(leader, cache)}; the last one: {error_text(state.last_error)}"
            yield tp, ("retry", leader.node_id, type(state.last_error)), text
        elif state.reset_timestamp is not None:
            yield tp, ("position", leader.node_id), f"where to begin, from {broker_name(leader, cache)}"
