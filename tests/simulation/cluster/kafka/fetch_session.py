"""A client's side of a fetch session (KIP-227): what the next request names, and under which epoch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.kafka.schemas.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestForgottenTopic,
)

NO_EPOCH, FIRST_EPOCH = -1, 0
NOT_FOUND, WRONG_EPOCH = 70, 71


class Place(NamedTuple):
    """A partition of a topic id."""

    topic: str
    topic_id: str
    partition: int


class Wanted(NamedTuple):
    """From where it is fetched."""

    offset: int
    leader_epoch: int


class FetchSession:
    """With one node. Without `is_used`, each request names everything."""

    def __init__(self, *, is_used: bool) -> None:
        self._is_used = is_used
        self.session_id, self.epoch = 0, FIRST_EPOCH if is_used else NO_EPOCH
        self.named: dict[Place, Wanted] = {}
        """Everything that the node knows of the session."""

    def question(
        self, wanted: Mapping[Place, Wanted], max_wait_ms: int, bytes_max: int, rack: str = ""
    ) -> FetchRequest:
        """The next request, of a consumer in this rack. Places that it knew and that are not wanted are forgotten."""
        is_whole = self.epoch <= FIRST_EPOCH
        changed = dict(wanted) if is_whole else {at: want for at, want in wanted.items() if self.named.get(at) != want}
        forgotten = [] if is_whole else [at for at in self.named if at not in wanted]
        self.named = dict(wanted)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            session_id=self.session_id,
            session_epoch=self.epoch,
            rack_id=rack,
            topics=[_topic(at, want, bytes_max) for at, want in changed.items()],
            forgotten_topics_data=[
                FetchRequestForgottenTopic(topic=at.topic, topic_id=at.topic_id, partitions=[at.partition])
                for at in forgotten
            ],
        )

    def answered(self, session_id: int) -> None:
        """Without an error."""
        if not self._is_used:
            return
        if self.epoch == FIRST_EPOCH:
            self.session_id = session_id
            self.epoch = FIRST_EPOCH + 1 if session_id else FIRST_EPOCH
        else:
            self.epoch += 1

    def failed(self, code: int = 0) -> None:
        """Refused as a whole, or without an answer: the next request ends what the node has and begins anew."""
        if self._is_used:
            self.epoch = FIRST_EPOCH
            self.session_id = 0 if code == NOT_FOUND else self.session_id

    def used_before(self) -> FetchRequest | None:
        """A request under the epoch of the one before: a node must refuse it. None if there is no session."""
        if self.epoch <= FIRST_EPOCH + 1:
            return None
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=self.session_id, session_epoch=self.epoch - 1)

    def __repr__(self) -> str:
        return f"FetchSession({self.session_id}, epoch {self.epoch}, {len(self.named)} partitions)"


def whole(at: Place, offset: int, bytes_max: int) -> FetchRequest:
    """A request without a session."""
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        session_epoch=NO_EPOCH,
        topics=[_topic(at, Wanted(offset, -1), bytes_max)],
    )


def _topic(at: Place, want: Wanted, bytes_max: int) -> FetchRequestFetchTopic:
    partition = FetchRequestFetchPartition(
        partition=at.partition,
        current_leader_epoch=want.leader_epoch,
        fetch_offset=want.offset,
        partition_max_bytes=bytes_max,
    )
    return FetchRequestFetchTopic(topic=at.topic, topic_id=at.topic_id, partitions=[partition])
