"""Metadata: the brokers, the topics and who leads their partitions, in all versions of Kafka 4.

    v0     an empty list of topics means all of them; from v1 on null does
    v4     `allow_auto_topic_creation`
    v10    topics have ids; from v12 on a client may ask by id

A topic that there is not is made first if `auto.create.topics.enable` says so and the client does not mind. Kafka
answers before it is made, and the client asks again; here it waits for it, for a moment.

The controller of the answer is the broker to which clients send changes of the cluster. Every broker forwards them, so
it is the active controller only where that is a broker which these clients reach, which saves a hop; otherwise it is
the broker that answers. Not here: the topics in Kafka's terms (topic_structs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from broker.kafka.api_row import serves
from broker.kafka.apis.authorized_operations import NOT_ASKED, cluster_operations, topic_operations
from broker.kafka.apis.encoded_topics import EncodedTopics, Form
from broker.kafka.apis.topic_structs import topic_struct
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, PAUSED_EVERY, Ask, Asked, Plan
from broker.kafka.schemas.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
    TopicExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages import metadata as ours
from penstock.messages import topics
from penstock.messages.client_apis import NAMES_MAX
from penstock.topic_names import validate_topic_name

T = TypeVar("T")
NO_NODE: Final = -1
CREATION_MS: Final = 2_000
"""How long an answer waits for the topics that it makes: later requests of the connection wait with it."""


class _Wanted(NamedTuple):
    """One topic of a request, by its id or by its name; the name is None for an id that no topic has."""

    name: str | None
    topic_id: str = ""


class MetadataPlans:
    """The plan of Metadata, with what it keeps between requests."""

    def __init__(self, parts: PlanParts) -> None:
        self._parts = parts
        self._encoded = EncodedTopics()

    def __call__(self, asked: Asked, body: MetadataRequest) -> Plan:
        everything = _is_all(asked, body)
        creates = body.allow_auto_topic_creation and self._parts.config.auto_create_topics_enable
        wants_operations = body.include_topic_authorized_operations
        topics: list[MetadataResponseTopic] = []
        wanted = None if everything else [self._wanted(asked, topic) for topic in body.topics or ()]
        for some in self._in_turns(asked, wanted):
            found = yield from topics_named(_names(some))
            if creates and not everything:
                found, creates = yield from _with_new_topics(found)  # without a controller, it waits once
            views = found.topics if some is None else _views(found, some)
            seen = (view for view in views if not everything or not is_unseen(view))
            alive = [broker.node_id for broker in found.brokers]
            topics += yield from self._topics(asked, seen, wants_operations, alive)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack or None)
                for b in found.brokers
            ],
            cluster_id=found.cluster_id,
            controller_id=controller_for(alive, found.controller_id, self._parts.node_id),
            topics=topics,
            cluster_authorized_operations=(
                cluster_operations(self._parts, asked) if body.include_cluster_authorized_operations else NOT_ASKED
            ),
        )

    def _in_turns(self, asked: Asked, wanted: Sequence[_Wanted] | None) -> Iterator[Sequence[_Wanted] | None]:
        """The topics of each question: everything where that is not much, and a thousand otherwise. Nothing is a
        question too: for the brokers."""
        names = self._parts.image().topics_by_name
        if wanted is None and len(names) <= NAMES_MAX:
            return iter((None,))
        if wanted is None:
            wanted = [_Wanted(name) for name in sorted(self._parts.rights.seen(asked.caller, names))]
        each = list(dict.fromkeys(wanted))
        return iter(list(_in_parts(each)) or [each])

    def _topics(
        self, asked: Asked, views: Iterable[ours.TopicInfo], wants_operations: bool, alive: Sequence[int]
    ) -> Generator[Ask, Any, list[MetadataResponseTopic]]:
        """The topics of the answer, mostly the bytes of an earlier one. Topics of version 0 depend on the brokers, too.
        A topic whose bytes are not kept takes as long as its partitions are many."""
        partitions = 0
        topics = self._parts.image().topics_by_id
        known: dict[int, Callable[[ours.TopicInfo, Callable[[], MetadataResponseTopic]], bytes]] = {}
        found: list[Any] = []
        for view in views:
            if partitions >= PAUSED_EVERY:
                partitions = 0
                yield PAUSE
            partitions += 1 + len(view.partitions)
            if asked.version == 0:
                found.append(topic_struct(view, 0, NOT_ASKED, alive))
                continue
            operations = topic_operations(self._parts, asked, view.name) if wants_operations else NOT_ASKED
            encoded = known.get(operations)
            if encoded is None:
                encoded = known[operations] = self._encoded.form(
                    Form(asked.caller.listener, asked.version, operations), topics
                )
            found.append(encoded(view, partial(topic_struct, view, asked.version, operations, alive)))
        return cast(list[MetadataResponseTopic], found)

    def _wanted(self, asked: Asked, topic: Any) -> _Wanted:
        if topic.topic_id:
            if asked.version < 12:
                raise InvalidRequestError(f"Metadata of version {asked.version} asks for topics by name, not by id")
            return _Wanted(self._parts.topic_name(topic.topic_id), topic.topic_id)
        if topic.name is None:
            raise InvalidRequestError("a topic is asked for with neither a name nor an id")
        return _Wanted(topic.name)


def metadata_failed(asked: Asked, body: MetadataRequest, error: ApiError) -> MetadataResponse:
    """The error for each topic that was asked for, as Kafka answers."""
    code = code_of(error, "Metadata", asked.version)
    topics = [MetadataResponseTopic(error_code=code, name=t.name or "", topic_id=t.topic_id) for t in body.topics or ()]
    return MetadataResponse(topics=topics, error_code=code)


def topics_named(names: Sequence[str] | None) -> Generator[Ask, Any, ours.MetadataResponse]:
    """Metadata of these topics, or of all; a thousand names at a time, so that other requests have their turns."""
    if names is None or len(names) <= NAMES_MAX:
        found: ours.MetadataResponse = yield Ask(
            "Metadata", ours.MetadataRequest(None if names is None else tuple(names))
        )
        return found
    found = yield from topics_named(names[:NAMES_MAX])
    for some in _in_parts(names[NAMES_MAX:]):
        found = found.joined((yield from topics_named(some)))
    return found


def controller_for(alive: Sequence[int], controller_id: int, node_id: int) -> int:
    """The broker to which clients send their changes, of those that they reach.

    That is this one, which forwards them: it lives, and was reached just now. The active controller may have died a
    moment ago, and librdkafka's admin client waits for the broker that it was told of, and asks nobody else.
    """
    if node_id in alive:
        return node_id
    return controller_id if controller_id in alive else next(iter(alive), NO_NODE)


def _is_all(asked: Asked, body: MetadataRequest) -> bool:
    return body.topics is None or (asked.version == 0 and not body.topics)


def is_unknown(topic: ours.TopicInfo) -> bool:
    """True if there is no topic of the name, or none any more."""
    return isinstance(topic.error, UnknownTopicOrPartitionError)


def is_unseen(topic: ours.TopicInfo) -> bool:
    """True if there is no such topic, or the client may not know of it."""
    return is_unknown(topic) or isinstance(topic.error, TopicAuthorizationFailedError)


def _names(wanted: Sequence[_Wanted] | None) -> Sequence[str] | None:
    return None if wanted is None else [one.name for one in wanted if one.name is not None]


def _in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + NAMES_MAX] for at in range(0, len(items), NAMES_MAX))


def _views(found: ours.MetadataResponse, wanted: Sequence[_Wanted]) -> Iterator[ours.TopicInfo]:
    """One for each topic of the request, in its order. A topic that was deleted, or made again, since its id was looked
    up has no other answer than an id that nobody knows."""
    by_name = {topic.name: topic for topic in found.topics}
    for name, topic_id in wanted:
        view = by_name.get(name) if name is not None else None
        if view is not None and (not topic_id or view.topic_id == topic_id):
            yield view
        elif topic_id and view is not None and isinstance(view.error, TopicAuthorizationFailedError):
            yield ours.TopicInfo("", topic_id, error=view.error)  # an id is no secret, its name is
        elif topic_id:
            yield ours.TopicInfo("", topic_id, error=UnknownTopicIdError(f"no topic has the id {topic_id}"))


def _with_new_topics(found: ours.MetadataResponse) -> Generator[Ask, Any, tuple[ours.MetadataResponse, bool]]:
    """The answer once its unknown topics are made, and that a controller was there to make them. What was made
    meanwhile by somebody else is as good."""
    unknown = [topic.name for topic in found.topics if is_unknown(topic) and _is_legal(topic.name)]
    if not unknown:
        return found, True
    errors: dict[str, ApiError] = {}
    is_answered = True
    new = tuple(topics.NewTopic(name) for name in unknown)
    try:
        made = yield Ask("CreateTopics", topics.CreateTopicsRequest(new, timeout_ms=CREATION_MS))
    except ApiError as error:
        is_answered = not error.retriable
        errors = {} if error.retriable else dict.fromkeys(unknown, error)
    else:
        refused = (topic for topic in made.topics if topic.error is not None)
        errors = {topic.name: topic.error for topic in refused if not isinstance(topic.error, TopicExistsError)}
    again = yield from topics_named([topic.name for topic in found.topics])
    not_yet = LeaderNotAvailableError("the topic is being made; ask again")
    asked_for = set(unknown)
    with_errors = (
        replace(topic, error=errors.get(topic.name, not_yet)) if topic.error and topic.name in asked_for else topic
        for topic in again.topics
    )
    return replace(again, topics=tuple(with_errors)), is_answered


def _is_legal(name: str) -> bool:
    try:
        validate_topic_name(name)
    except InvalidTopicError:
        return False
    return True


SERVED: Final = (serves(MetadataRequest, MetadataResponse, (0, 13), MetadataPlans, failed=metadata_failed),)
