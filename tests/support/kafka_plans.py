"""Goes through the plans of the Kafka listener by hand, and reads their answers as a client of the version does."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.kafka.parts import PlanParts, PlanRights
from broker.kafka.plan import PAUSE, Ask, Asked, Plan
from broker.kafka_codec.codec import decode, encode
from broker.network.request_channel import Caller
from metadata.image import MetadataImage, TopicImage
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.errors import ApiError
from penstock.types import Endpoint, ListenerEndpoint

ME, OTHER = 1, 2
LISTENER = "KAFKA"
KAFKA_CALLER = Caller(Endpoint("10.0.0.1", 4711), LISTENER)
LEADER_EPOCH = 5


class FakeParts:
    """The parts of a node for which plans look: its id, and the metadata."""

    def __init__(self, image: MetadataImage, node_id: int = ME) -> None:
        self.node_id = node_id
        self.metadata = image
        self.rights = PlanRights(None)

    def image(self) -> MetadataImage:
        return self.metadata

    def topic_id(self, name: str) -> str | None:
        topic = self.metadata.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: str) -> str | None:
        return self.metadata.topic_name(topic_id)


def parts_of(*topics: TopicImage) -> PlanParts:
    """Brokers 1 and 2, and these topics."""
    brokers = {
        number: BrokerRegistration(
            number,
            "incarnation",
            number,
            f"broker{number}",
            9192,
            f"rack{number}",
            False,
            False,
            (),
            listeners=(ListenerEndpoint(LISTENER, Endpoint(f"kafka{number}", 9092)),),
        )
        for number in (ME, OTHER)
    }
    by_id, by_name = ({getattr(topic, key): topic for topic in topics} for key in ("topic_id", "name"))
    return cast(PlanParts, FakeParts(MetadataImage(1, 1, brokers, by_id, by_name)))


def topic_of(name: str, topic_id: str, *leaders: int) -> TopicImage:
    """A topic whose partitions have one replica each, at its leader."""
    partitions = {
        number: PartitionRegistration(topic_id, number, (leader,), (leader,), leader, LEADER_EPOCH, 0)
        for number, leader in enumerate(leaders)
    }
    return TopicImage(name, topic_id, partitions)


def asked(version: int) -> Asked:
    return Asked(version, KAFKA_CALLER, "a client")


def ended(plan: Plan, answer: Any = None) -> Any:
    """The plan's own answer after the last one of the node; an error of the node is thrown into it."""
    with pytest.raises(StopIteration) as end:
        ask = plan.throw(answer) if isinstance(answer, ApiError) else plan.send(answer)
        while ask is PAUSE:
            ask = next(plan)
    return end.value.value


def pauses(plan: Plan, answer: Any) -> int:
    """How often a plan pauses between the node's answer and what it does next. It may end then."""
    number = 0
    try:
        ask = plan.send(answer)
        while ask is PAUSE:
            number += 1
            ask = next(plan)
    except StopIteration:
        pass
    return number


def next_ask(plan: Plan, answer: Any) -> Any:
    """The body of what the node is asked after it has given this answer."""
    ask = plan.send(answer)
    while ask is PAUSE:
        ask = next(plan)
    return ask.body


def first_ask(plan: Plan, api: str) -> Any:
    """The body of the first thing that the node is asked."""
    ask = next(plan)
    while ask is PAUSE:
        ask = next(plan)
    assert isinstance(ask, Ask) and ask.api == api
    return ask.body


def read_by_client(answer: Any, version: int) -> Any:
    """The answer after the way over the wire."""
    frame = b"".join(encode(answer, version))
    read, end = decode(type(answer), version, memoryview(frame))
    assert end == len(frame)
    return read
