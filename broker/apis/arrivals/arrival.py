"""Decides how long a request waits for partitions that have not arrived at this broker yet. Pure.

A client that created a topic by another node, or was told of a new leader there, may be ahead of the leader. This is
evidence that the partition may arrive, and the end of the wait for it:

    the topic, its id, the partition, or     the metadata may be newer than ours. The quorum's leader is asked once for
    the client's leader epoch is unknown     the end of what is committed. When that is applied here, the metadata is at
                                             least as new as when the request came: what is unknown then does not exist,
                                             and the request is answered as ever.
    another broker leads it                  our own end of the committed metadata when the request came, if it is not
                                             applied yet. A client with old metadata is the usual case, so the quorum's
                                             leader is not asked.
    this broker leads it, its log is opened  nothing else: it waits for the log. A log that could not be opened is lost,
                                             and is answered at once.

A coordinator needs the metadata alone: for it a partition that is known is settled, and no commit waits for logs.

So a wrong name costs one round trip to the quorum's leader, and no time-out. `CommittedEnds` limits those: one is under
way at a time, a party waits for READS_OF_PARTY of them in a second, and nobody does for a while after one has failed. A
leader of the quorum that was deposed, or has just begun, may tell of an older end: the request then gets the answer
that it would have got without the wait. Not here: which requests may wait (arrival_waits.py), and the answers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

from broker.network.named_partitions import Named, NamedPartition, PlainNamed
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.replica_states import TO_CREATE
from metadata.image import MetadataImage, TopicImage
from penstock.types import TopicPartition

READ_FAILED_MS = 5_000
"""The time after a failed read in which no request waits for another one: a broker that is cut off answers at once."""
READS_OF_PARTY = 100
"""Requests of one party that wait for a read in a second: a loop over wrong names is held up by no more."""
READ_WINDOW_MS = 1_000


class PartitionStatus(Enum):
    """The state of one partition at this broker, as far as waiting goes."""

    SETTLED = "it is here, or will not be"
    OPENING = "this broker leads it, and its log is still to be opened"
    ELSEWHERE = "another broker leads it, or none"
    UNSEEN = "the metadata of this broker does not have it, or not the client's epoch"


_NO_NUMBERS: Final[Mapping[int, object]] = {}

StatusOf = Callable[[NamedPartition, MetadataImage, HostedPartitions], PartitionStatus]


def status_of(named: NamedPartition, image: MetadataImage, hosted: HostedPartitions) -> PartitionStatus:
    """The state of a partition at its leader, which needs the log."""
    topic = _topic(named, image)
    state = None if topic is None else topic.partitions.get(named.partition)
    if topic is None or state is None or named.leader_epoch > state.leader_epoch:
        return PartitionStatus.UNSEEN
    if state.leader_id != hosted.broker_id:
        return PartitionStatus.ELSEWHERE
    key = TopicPartition(topic.name, named.partition)
    partition = hosted.find(key)
    if partition is not None and partition.topic_id == topic.topic_id:
        return PartitionStatus.SETTLED
    replica = hosted.replica(key)
    is_opening = replica is not None and replica.lost is None and replica.state in TO_CREATE
    return PartitionStatus.OPENING if is_opening else PartitionStatus.SETTLED


def known_status_of(named: NamedPartition, image: MetadataImage, hosted: HostedPartitions) -> PartitionStatus:
    """The state of a partition at a coordinator, which needs the metadata alone."""
    topic = _topic(named, image)
    is_known = topic is not None and named.partition in topic.partitions
    return PartitionStatus.SETTLED if is_known else PartitionStatus.UNSEEN


STATUSES: Final[dict[bool, StatusOf]] = {True: status_of, False: known_status_of}
"""The function that finds a partition's standing, by the need of a log."""


def _topic(named: NamedPartition, image: MetadataImage) -> TopicImage | None:
    return image.topics_by_id.get(named.topic_id) if named.topic_id else image.topics_by_name.get(named.topic)


def unsettled_of(named: Named, image: MetadataImage, hosted: HostedPartitions) -> list[NamedPartition]:
    """The partitions that are not settled. A request with thousands comes often, and all of them are here: one look-up
    tells so of each."""
    status_of_one, looks = STATUSES[named.needs_log], _leads if named.needs_log else _knows
    others = map(NamedPartition._make, looks(named.partitions, image, hosted))
    return [one for one in others if status_of_one(one, image, hosted) is not PartitionStatus.SETTLED]


def _leads(partitions: Iterable[PlainNamed], image: MetadataImage, hosted: HostedPartitions) -> Iterator[PlainNamed]:
    """The partitions that this broker does not lead, as far as one look can tell."""
    by_name, names, known_id, name = hosted.by_name, image.topics_by_id, "", ""
    for one in partitions:
        topic, topic_id, number, epoch = one
        if not topic:
            if topic_id != known_id:
                found = names.get(topic_id)
                known_id, name = topic_id, "" if found is None else found.name
            topic = name
        partition = by_name.get((topic, number))
        if (
            partition is None
            or (leading := partition.leading) is None
            or epoch > leading.leader_epoch
            or (topic_id and partition.topic_id != topic_id)
        ):
            yield one


def _knows(partitions: Iterable[PlainNamed], image: MetadataImage, hosted: HostedPartitions) -> Iterator[PlainNamed]:
    """The partitions that the metadata does not have."""
    by_id, by_name, last, numbers = image.topics_by_id, image.topics_by_name, ("", ""), _NO_NUMBERS
    for one in partitions:
        topic, topic_id, number, _ = one
        if topic_id != last[1] or topic != last[0]:
            found = by_id.get(topic_id) if topic_id else by_name.get(topic)
            last, numbers = (topic, topic_id), _NO_NUMBERS if found is None else found.partitions
        if number not in numbers:
            yield one


class WaitStep(Enum):
    """The next need of a request that waits."""

    DONE = "nothing: the request may be looked at"
    READ = "the committed end, by the quorum's leader"
    NEWS = "newer metadata, or the news that a log is open"


class AwaitedPartitions:
    """The wait of one request."""

    __slots__ = ("_end_offset", "_has_asked", "_known_end_offset", "_left")

    def __init__(self, named: Iterable[NamedPartition]) -> None:
        self._left = deque(named)
        self._has_asked = False
        self._end_offset = 0
        self._known_end_offset: int | None = None

    def step(
        self, status_of_one: Callable[[NamedPartition], PartitionStatus], applied_end_offset: int, known_end_offset: int
    ) -> WaitStep:
        """The next step. `known_end_offset` is the end of what this broker knows to be committed, and
        `applied_end_offset` that of its image. The known end of the first look counts, or a client that changes
        metadata all the time would hold up the request. A partition that is settled once is not looked at again."""
        if self._known_end_offset is None:
            self._known_end_offset = known_end_offset
        while self._left:
            found = status_of_one(self._left[0])
            if found is PartitionStatus.OPENING:
                return WaitStep.NEWS
            if found is PartitionStatus.UNSEEN:
                if not self._has_asked:
                    return WaitStep.READ
                if applied_end_offset < self._end_offset:
                    return WaitStep.NEWS
            elif found is PartitionStatus.ELSEWHERE and applied_end_offset < self._known_end_offset:
                return WaitStep.NEWS
            self._left.popleft()
        return WaitStep.DONE

    def read(self, end_offset: int | None) -> None:
        """The committed end at some time since the request came; None if it could not be read."""
        self._has_asked, self._end_offset = True, end_offset or 0

    def __repr__(self) -> str:
        return f"AwaitedPartitions({len(self._left)} left, committed end {self._end_offset})"


class CommittedEnds:
    """The reads of the committed end: one at a time for the whole broker, each for all that asked before it began.

    A read that was under way when a request came may be older than what its client knows, so the request gets the
    next one.
    """

    def __init__(self) -> None:
        self.end_offset: int | None = None
        """The newest one; None after a read that failed."""
        self._begun = self._ended = self._wanted = 0
        self._not_before_ms = self._window_ms = 0
        self._of_party: Counter[str] = Counter()

    def ask(self, party: str, now_ms: int) -> int | None:
        """The number of the read to wait for; None if this party may not wait for a read now."""
        if self.has_failed(now_ms):
            return None
        if now_ms - self._window_ms >= READ_WINDOW_MS:
            self._window_ms = now_ms
            self._of_party.clear()
        if self._of_party[party] >= READS_OF_PARTY:
            return None
        self._of_party[party] += 1
        self._wanted = self._begun + 1
        return self._wanted

    def has_failed(self, now_ms: int) -> bool:
        """True while no party may wait for a read, because one failed a moment ago."""
        return now_ms < self._not_before_ms

    def begin(self) -> bool:
        """True if a read begins now; then `ended` must be called."""
        if self._begun > self._ended or self._wanted <= self._begun:
            return False
        self._begun += 1
        return True

    def ended(self, end_offset: int | None, now_ms: int) -> None:
        """None: the read failed, and those who wait for the next one wait no more."""
        self.end_offset, self._ended = end_offset, self._begun
        if end_offset is None:
            self._begun = self._ended = max(self._begun, self._wanted)
            self._not_before_ms = now_ms + READ_FAILED_MS

    def has(self, number: int) -> bool:
        return self._ended >= number

    def __repr__(self) -> str:
        return f"CommittedEnds({self._ended} of {self._wanted} reads, {self.end_offset})"
