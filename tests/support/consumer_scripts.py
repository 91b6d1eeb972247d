"""Scripts of heartbeats (KIP-848), and their transcripts: what our core answers, and what a real Kafka does.

    python -m tests.support.consumer_scripts ADDRESS     # of a Kafka; kept in tests/unit/.../consumer/kafka_4_3_1.txt

Its broker needs group.consumer.assignment.interval.ms=0, group.consumer.min.assignment.interval.ms=0,
group.consumer.assignor.offload.enable=false, and the topics t (4 partitions) and u (3).

An epoch is written as its distance from the first one that the group's members were told, counted from 1, since the
first epoch of a group is another one there. Of an assignment the transcript has the number of partitions of each topic.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from broker.kafka.schemas.groups.consumer import (
    ConsumerGroupHeartbeatRequest as KafkasRequest,
)
from broker.kafka.schemas.groups.consumer import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.errors import ApiError
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest, TopicIdPartitions
from penstock.wire_errors.api_error import ERRORS
from tests.support.consumer_groups import ConsumerShard, TopicsHere
from tests.support.kafka_socket import KafkaSocket

TOPICS = {"t": 4, "u": 3}
Held = dict[str, tuple[int, ...]]
"""Partitions by the names of topics."""


class Beat(NamedTuple):
    """One heartbeat. `epoch` counts from the member's own if it is a text: "+0", "-1", "+7"."""

    member_id: str
    epoch: int | str
    fields: Mapping[str, Any] = MappingProxyType({})
    version: int = 1


class BeatAnswer(NamedTuple):
    error: str
    epoch: int = 0
    member_id: str = ""
    assignment: Held | None = None


class Speaker(Protocol):
    def beat(self, group_id: str, member_id: str, epoch: int, fields: dict[str, Any], version: int) -> BeatAnswer: ...


def joins(member_id: str, *names: str, **fields: Any) -> Beat:
    said = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, "owned": {}, **fields}
    return Beat(member_id, 0, {name: value for name, value in said.items() if value is not None})


def beats(member_id: str, epoch: int | str = "+0", version: int = 1, **fields: Any) -> Beat:
    return Beat(member_id, epoch, fields, version)


def acks(member_id: str, **fields: Any) -> Beat:
    return Beat(member_id, "+0", {"owned": "own", **fields})


SCRIPTS: dict[str, tuple[Beat, ...]] = {
    "two members share a topic": (
        joins("a", "t"),
        beats("a"),
        acks("a"),
        joins("b", "t"),
        beats("a"),
        beats("b"),
        beats("a"),
        acks("a"),
        beats("b"),
        acks("b"),
        beats("a", "+7"),
        beats("a", "-1"),
        beats("a", "-1", owned="own"),
        beats("a", "-1", owned="own", rebalance_timeout_ms=60_000, subscribed_topic_names=("t",)),
    ),
    "a member that was fenced joins again": (
        joins("a", "t"),
        joins("b", "t"),
        acks("a"),
        acks("a"),
        acks("b"),
        joins("a", "t"),
        beats("a"),
        joins("a", "t", owned={"t": (0,)}),
    ),
    "another subscription": (
        joins("a", "t"),
        joins("b", "t"),
        acks("a"),
        acks("a"),
        beats("b"),
        acks("b"),
        acks("a", subscribed_topic_names=("u",)),
        acks("a"),
        beats("b"),
        acks("b"),
        beats("a"),
        acks("a", subscribed_topic_names=()),
        acks("a"),
        beats("a", server_assignor="nope"),
        beats("b", "-7"),
    ),
    "members leave": (
        joins("a", "t"),
        joins("b", "t"),
        beats("a", -1),
        beats("a", 3),
        beats("b"),
        acks("b"),
        beats("b", -2),
        beats("b", -1),
        beats("b", -1),
        beats("stranger", -1),
        joins("c", "t"),
    ),
    "there is no group": (beats("a", 2), beats("a", -1), beats("a", -2, instance_id="i")),
    "a static member goes and comes": (
        joins("m1", "t", instance_id="i"),
        joins("m2", "t", instance_id="i"),
        beats("m2", 1, instance_id="i"),
        beats("m1", "+0", instance_id="j"),
        beats("m1"),
        beats("m1", -2, instance_id="i"),
        beats("m1", 1, instance_id="i"),
        beats("m1", -2, instance_id="i"),
        joins("m2", "t", instance_id="i"),
        beats("m1", 1, instance_id="i"),
        beats("m1", 1),
        beats("m2", -2, instance_id="i"),
        joins("m2", "t", instance_id="i"),
        beats("m2", -2, instance_id="i"),
        joins("m3", "t", "u", instance_id="i"),
        beats("m3", instance_id="i"),
        joins("d", "t"),
        acks("m3", instance_id="i"),
        beats("m3", -2, instance_id="i"),
        beats("d"),
        acks("d"),
        joins("m4", "t", "u", instance_id="i"),
        acks("m4", instance_id="i"),
        beats("m4", -1, instance_id="i"),
        beats("m4", -1, instance_id="i"),
    ),
    "requests that are refused": (
        joins("", "t"),
        beats("", 1, 0),
        beats("", -1, 0),
        joins("x", "t", rebalance_timeout_ms=None),
        joins("x", "t", owned=None),
        joins("x", "t", owned={"t": (1,)}),
        joins("x", subscribed_topic_names=None),
        beats("x", -3),
        beats("x", -2),
        joins("x", "t", instance_id=""),
        joins("x", "t", rack_id=""),
        joins("x", "t", server_assignor="no"),
        joins("x", "t", server_assignor=""),
        joins("x", subscribed_topic_names=None, subscribed_topic_regex="("),
    ),
    "an id is made for a member": (Beat("", 0, joins("", "t").fields, 0),),
    "topics that are not there, or twice": (joins("x", "nowhere", "t"), joins("z", "t", "t"), acks("x"), acks("x")),
}


@dataclass(slots=True)
class Transcript:
    """The answers of one group, in lines."""

    speaker: Speaker
    group_id: str
    first: int | None = None
    epochs: dict[str, int] = field(default_factory=dict)
    owned: dict[str, Held] = field(default_factory=dict)

    def line(self, beat: Beat) -> str:
        own = self.epochs.get(beat.member_id, 0)
        epoch = own + int(beat.epoch) if isinstance(beat.epoch, str) else beat.epoch
        fields = dict(beat.fields)
        if fields.get("owned") == "own":
            fields["owned"] = self.owned.get(beat.member_id, {})
        answer = self.speaker.beat(self.group_id, beat.member_id, epoch, fields, beat.version)
        said = " ".join(f"{name}={value!r}" for name, value in beat.fields.items())
        asked = f"{beat.member_id or '-'} {beat.epoch} {said}".rstrip()
        if answer.error:
            return f"{asked}: {answer.error}"
        if self.first is None and answer.epoch > 0:
            self.first = answer.epoch
        self.epochs[beat.member_id] = answer.epoch
        if answer.assignment is not None:
            self.owned[beat.member_id] = answer.assignment
        shown = answer.epoch if answer.epoch < 0 else answer.epoch - (self.first or 0) + 1
        counts = None if answer.assignment is None else {name: len(found) for name, found in answer.assignment.items()}
        who = answer.member_id if beat.member_id else "made"
        return f"{asked}: epoch={shown} member={who} assignment={counts}"


def transcript(speaker: Speaker) -> str:
    lines: list[str] = []
    for name, beats_ in SCRIPTS.items():
        group = Transcript(speaker, f"{name.replace(' ', '-')}-{uuid4().hex[:6]}")
        lines += [f"== {name}", *(group.line(beat) for beat in beats_), ""]
    return "\n".join(lines)


class OurCore:
    def __init__(self) -> None:
        self.shard = ConsumerShard(TopicsHere(**TOPICS))
        self.ids = {name: facts.topic_id for name, facts in self.shard.topics.facts.items()}

    def beat(self, group_id: str, member_id: str, epoch: int, fields: dict[str, Any], version: int) -> BeatAnswer:
        said = dict(fields)
        owned: Held | None = said.pop("owned", None)
        rows = None if owned is None else tuple(TopicIdPartitions(self.ids[name], owned[name]) for name in owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id, member_id, epoch, owned_partitions=rows, may_make_member_id=version == 0, **said
        )
        try:
            answer = self.shard.send(request)
        except ApiError as error:
            return BeatAnswer(error.kafka_name)
        return BeatAnswer("", answer.member_epoch, answer.member_id, _held(answer.assignment, self.ids))


class RealKafka:
    def __init__(self, address: str) -> None:
        self._socket = KafkaSocket(address)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
        topics = self._socket.ask(asked, 12, MetadataResponse).topics
        self.ids = {topic.name: topic.topic_id for topic in topics}
        while (
            self._socket.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)
            .coordinators[0]
            .error_code
        ):
            time.sleep(0.2)

    def beat(self, group_id: str, member_id: str, epoch: int, fields: dict[str, Any], version: int) -> BeatAnswer:
        said = dict(fields)
        owned: Held | None = said.pop("owned", None)
        rows = ConsumerGroupHeartbeatRequestTopicPartitions
        request = KafkasRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None
            if owned is None
            else [rows(topic_id=self.ids[name], partitions=list(owned[name])) for name in owned],
            **said,
        )
        answer = self._socket.ask(request, version, ConsumerGroupHeartbeatResponse)
        if answer.error_code:
            return BeatAnswer(ERRORS[answer.error_code].kafka_name)
        found = None if answer.assignment is None else answer.assignment.topic_partitions
        return BeatAnswer("", answer.member_epoch, answer.member_id or "", _held(found, self.ids))


def _held(rows: Any, ids: dict[str, str]) -> Held | None:
    if rows is None:
        return None
    names = {topic_id: name for name, topic_id in ids.items()}
    found = {names[row.topic_id]: tuple(row.partitions) for row in rows}
    return {name: found[name] for name in sorted(found)}


if __name__ == "__main__":
    print(transcript(RealKafka(sys.argv[1])), end="")
