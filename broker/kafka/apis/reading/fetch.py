"""Fetch: records of partitions, in versions 4 to 18.

    v7     incremental sessions (KIP-227): a request names only what has changed, and is answered with what is new
    v11    a consumer names its rack, and is told of a follower there (KIP-392)
    v12    a position has the epoch of the record before it, so that the answer says where the histories part (KIP-320)
    v13    topics have ids instead of names
    v15    a follower names itself elsewhere; it is refused here, as at every listener for clients
    v16    an answer tells who leads now (KIP-951)

A request without a session goes through one that lives as long as its connection, so that a partition that is asked for
as before costs next to nothing. A topic that does not exist stays in a session like any other partition in trouble, and
is looked up again with each request. Not here: the answer (fetch_answer.py), and the sessions that have ids
(`broker/network/named_sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from broker.kafka.api_row import serves
from broker.kafka.apis.reading.fetch_answer import IDS_FROM, NO_TOPIC, answer_to, failed, refusal
from broker.kafka.apis.reading.isolation import reads_committed
from broker.kafka.errors import Code
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.fetch import FetchRequest, FetchRequestForgottenTopic, FetchResponse
from broker.network.fetcher_session import FetcherSession, SessionView
from broker.network.named_sessions import LAST_REQUEST, NEW_SESSION, NamedSession, NoSession
from broker.network.parties import party_of
from metadata.image import MetadataImage
from penstock.errors import FetchSessionTopicIdError, InvalidRequestError, TopicAuthorizationFailedError
from penstock.messages import fetch as ours
from penstock.messages.security.acls import Operation, ResourceType
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_OFFSET, TopicPartition

_REFUSED: Final = {
    NoSession.UNKNOWN_ID: Code.FETCH_SESSION_ID_NOT_FOUND,
    NoSession.WRONG_EPOCH: Code.INVALID_FETCH_SESSION_EPOCH,
    NoSession.OTHER_NAMES: FetchSessionTopicIdError.code,
}
Answering = Generator[Ask, Any, FetchResponse]


class FetchPlans:
    """The plan of Fetch, with the sessions of this node."""

    def __init__(self, parts: PlanParts) -> None:
        self._parts, self._sessions = parts, parts.named_sessions

    def __call__(self, asked: Asked, body: FetchRequest) -> Plan:
        if body.replica_id >= 0 or body.replica_state.replica_id >= 0:
            return refusal(asked, body, TopicAuthorizationFailedError.code)  # as Kafka, where only brokers may
        by_ids, now_ms, owner = asked.version >= IDS_FROM, self._parts.now_ms(), asked.caller.principal
        if body.session_epoch not in (NEW_SESSION, LAST_REQUEST):
            found = self._sessions.go_on(body.session_id, body.session_epoch, owner, by_ids=by_ids, now_ms=now_ms)
            if isinstance(found, NoSession):
                return FetchResponse(error_code=_REFUSED[found])
            return (yield from self._in_session(asked, body, found, is_full=False))
        self._sessions.end(body.session_id, owner)
        if body.session_epoch == NEW_SESSION:
            partitions = sum(len(topic.partitions) for topic in body.topics)
            made = self._sessions.begin(asked.caller, partitions, by_ids=by_ids, now_ms=now_ms)
            if made is not None:
                return (yield from self._in_new_session(asked, body, made))
        return (yield from self._fetch(asked, body, self._of_connection(asked), is_full=True))

    def _in_new_session(self, asked: Asked, body: FetchRequest, made: NamedSession) -> Answering:
        try:
            return (yield from self._in_session(asked, body, made, is_full=True))
        except BaseException:
            self._sessions.end(made.session_id, made.owner)  # its client does not know of it
            raise

    def _in_session(self, asked: Asked, body: FetchRequest, named: NamedSession, *, is_full: bool) -> Answering:
        with named:
            answer = yield from self._fetch(asked, body, named.session, is_full=is_full)
            if named.size:
                answer.session_id = named.session_id
            else:
                self._sessions.end(named.session_id, named.owner)
            return answer

    def _of_connection(self, asked: Asked) -> FetcherSession:
        """The session of the requests that name none."""
        connection = asked.connection
        if connection.fetches is None:
            connection.fetches = self._parts.new_session(party_of(asked.caller))
        return connection.fetches

    def _fetch(self, asked: Asked, body: FetchRequest, session: FetcherSession, *, is_full: bool) -> Answering:
        image, by_ids = self._parts.image(), asked.version >= IDS_FROM
        kept = _Kept(session.partitions)
        partitions = _wanted(image, body, None if is_full else kept, by_ids=by_ids)
        forgotten: list[TopicPartition] = []
        if not is_full:
            forgotten = _forgotten(image, body.forgotten_topics_data, kept, by_ids=by_ids)
            may = partial(self._parts.rights.may, asked.caller, Operation.READ, ResourceType.TOPIC)
            partitions = _found_again(image, session.partitions, forgotten, may, by_ids=by_ids) + partitions
        if body.max_bytes < 0:
            raise InvalidRequestError(f"fetch: max_bytes {body.max_bytes} is negative")
        read_committed = reads_committed(body.isolation_level)
        response: ours.FetchResponse = yield Ask(
            "FetchConsumer",
            ours.FetchRequest(
                CONSUMER_REPLICA_ID,
                NO_EPOCH,
                max(body.max_wait_ms, 0) if body.min_bytes > 0 else 0,
                min(body.min_bytes, body.max_bytes),
                max(body.max_bytes, 1),
                partitions,
                forgotten,
                is_full=is_full,
                read_committed=read_committed,
                rack_id=body.rack_id,
            ),
            session,
        )
        return answer_to(asked, body, response.partitions, self._parts)


class _Kept:
    """The partitions of a session by topic id. One whose topic was deleted has the name under which it came."""

    __slots__ = ("_by_id", "view")

    def __init__(self, view: SessionView) -> None:
        self.view = view
        self._by_id: dict[tuple[str, int], TopicPartition] | None = None

    def find(self, topic_id: str, partition: int) -> TopicPartition | None:
        if self._by_id is None:
            self._by_id = {(one.topic_id, one.partition.partition): one.partition for one in self.view.wanted()}
        return self._by_id.get((topic_id, partition))


def _wanted(image: MetadataImage, body: FetchRequest, kept: _Kept | None, *, by_ids: bool) -> list[ours.FetchPartition]:
    """The partitions that the request names. A limit of 0 bytes lets the first batch of an answer through."""
    wanted = []
    for topic in body.topics:
        name, topic_id = topic.topic, topic.topic_id
        if by_ids:
            name = image.topic_name(topic_id) or NO_TOPIC + topic_id
        else:
            known = image.topic(name)
            topic_id = known.topic_id if known is not None else ""
        for one in topic.partitions:
            if one.partition_max_bytes < 0:
                raise InvalidRequestError(
                    f"fetch: partition_max_bytes {one.partition_max_bytes} of {name}-{one.partition} is negative"
                )
            key = TopicPartition(name, one.partition)
            if by_ids and kept is not None and name.startswith(NO_TOPIC):
                key = kept.find(topic_id, one.partition) or key
            wanted.append(
                ours.FetchPartition(
                    key,
                    topic_id,
                    one.fetch_offset,
                    one.current_leader_epoch,
                    one.last_fetched_epoch,
                    NO_OFFSET,
                    one.partition_max_bytes or 1,
                )
            )
    return wanted


def _forgotten(
    image: MetadataImage, topics: list[FetchRequestForgottenTopic], kept: _Kept, *, by_ids: bool
) -> list[TopicPartition]:
    """The partitions that leave the session. An id may be that of a topic which was deleted, or has become known."""
    if not by_ids:
        return [TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions]
    forgotten: list[TopicPartition] = []
    for topic in topics:
        name = image.topic_name(topic.topic_id) or NO_TOPIC + topic.topic_id
        for partition in topic.partitions:
            key: TopicPartition | None = TopicPartition(name, partition)
            found = kept.view.find(TopicPartition(name, partition))
            if found is None or found.topic_id != topic.topic_id:
                key = kept.find(topic.topic_id, partition)
            if key is not None:
                forgotten.append(key)
    return forgotten


def _found_again(
    image: MetadataImage,
    view: SessionView,
    forgotten: list[TopicPartition],
    may_read: Callable[[str], bool],
    *,
    by_ids: bool,
) -> list[ours.FetchPartition]:
    """The partitions of the session that are in trouble, and whose topics are others by now: one was created, or the
    metadata has reached this node. A topic that the client may not read stays as it was: an answer that does not wait
    would tell that it was created."""
    leaving = frozenset(forgotten)
    again = []
    for wanted in view.in_trouble():
        key, topic_id = wanted.partition, wanted.topic_id
        if key in leaving:
            continue
        if by_ids:
            name = image.topic_name(topic_id)
            if name is not None and key.topic != name:
                forgotten.append(key)
                again.append(wanted._replace(partition=TopicPartition(name, key.partition)))
        else:
            known = image.topic(key.topic)
            if known is not None and known.topic_id != topic_id and may_read(key.topic):
                again.append(wanted._replace(topic_id=known.topic_id))
    return again


SERVED: Final = (serves(FetchRequest, FetchResponse, (4, 18), FetchPlans, failed=failed, is_paced=False),)
