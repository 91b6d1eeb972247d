"""Our side of the scripts of offsets that transactions commit: the core of a whole shard."""

from __future__ import annotations

from typing import Any

from broker.coordination.record_log import TxnProducer
from penstock.errors import ApiError
from penstock.messages.groups.classic_protocol import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberAssignment,
    SyncGroupRequest,
)
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatResponse
from penstock.messages.groups.listing import DeleteGroupsRequest, DescribeGroupsRequest
from penstock.messages.groups.offsets import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition
from tests.support.shard_core import SESSION_MS, ShardCore
from tests.support.txn_offset_scripts import Step

JOINED_MS = 3_000


class OurCore:
    """`Side`. Before each step that `reloads` says so, the shard is loaded from its log."""

    def __init__(self, reloads: bool = False) -> None:
        self.core = ShardCore()
        self._reloads = reloads
        self._producers: dict[tuple[str, str], TxnProducer] = {}
        self._members: dict[tuple[str, str], tuple[str, int]] = {}

    def act(self, group_id: str, step: Step) -> str:
        if self._reloads:
            self.core.reloaded()
        answer = getattr(self, "_" + step.what.replace("-", "_"))(group_id, step)
        return answer.kafka_name if isinstance(answer, ApiError) else str(answer)

    def _producer(self, group_id: str, name: str) -> TxnProducer:
        return self._producers.setdefault((group_id, name), TxnProducer(len(self._producers) + 1, 0))

    def _who(self, group_id: str, step: Step) -> dict[str, Any]:
        member_id, epoch = self._members.get((group_id, step.fields.get("member", "")), ("", -1))
        return {
            "member_id": step.fields.get("member_id", member_id),
            "member_epoch": step.fields.get("epoch", epoch),
            "group_instance_id": step.fields.get("instance"),
        }

    def _pend(self, group_id: str, step: Step) -> Any:
        producer, who = self._producer(group_id, step.who), self._who(group_id, step)
        epoch = producer.producer_epoch + step.fields.get("bump", 0)
        places = tuple(
            OffsetCommitPartition(_place(place), offset, metadata=step.fields.get("metadata", ""))
            for place, offset in step.places.items()
        )
        who["group_instance_id"] = who["group_instance_id"] or ""
        return _errors(
            self.core.ask(TxnOffsetCommitRequest("tx", group_id, producer.producer_id, epoch, places, **who))
        )

    def _end(self, group_id: str, step: Step) -> Any:
        producer = self._producer(group_id, step.who)
        self.core.end_transaction(producer, step.fields["how"] == "commit")
        self._producers[group_id, step.who] = TxnProducer(producer.producer_id, producer.producer_epoch + 1)
        return "NONE"

    def _commit(self, group_id: str, step: Step) -> Any:
        places = tuple(OffsetCommitPartition(_place(place), offset) for place, offset in step.places.items())
        return _errors(self.core.ask(OffsetCommitRequest(group_id, places, **self._who(group_id, step))))

    def _fetch(self, group_id: str, step: Step) -> Any:
        group = OffsetFetchGroup(group_id, tuple(map(_place, step.places)), all_partitions=not step.places)
        (answer,) = self.core.ask(OffsetFetchRequest((group,), step.fields["stable"])).groups
        found = {
            f"{one.partition.topic}{one.partition.partition}": str(one.offset)
            if one.error is None
            else one.error.kafka_name
            for one in answer.partitions
        }
        return answer.error or " ".join(f"{place}={found[place]}" for place in sorted(found)) or "nothing"

    def _delete(self, group_id: str, step: Step) -> Any:
        return _errors(self.core.ask(OffsetDeleteRequest(group_id, tuple(map(_place, step.places)))))

    def _delete_group(self, group_id: str, step: Step) -> Any:
        return self.core.ask(DeleteGroupsRequest((group_id,))).groups[0].error or "NONE"

    def _describe(self, group_id: str, step: Step) -> Any:
        return self.core.ask(DescribeGroupsRequest((group_id,))).groups[0].state

    def _join(self, group_id: str, step: Step) -> Any:
        if step.fields["protocol"] == "consumer":
            answer = self.core.consumer_member(group_id, step.who.ljust(22, "A"))
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            self._members[group_id, step.who] = answer.member_id, answer.member_epoch
            return "NONE"
        join = JoinGroupRequest(
            group_id, SESSION_MS, 60_000, "", "consumer", (JoinGroupProtocol("range", b"\0" * 10),),
            requires_known_member_id=False,
        )  # fmt: skip
        ticket = len(self.core.answers) + 1
        self.core.ask(join, ticket)
        self.core.advance(JOINED_MS)
        joined = self.core.answers[ticket]
        assert isinstance(joined, JoinGroupResponse)
        self._members[group_id, step.who] = joined.member_id, joined.generation_id
        if step.fields["protocol"] == "classic":
            mine = (MemberAssignment(joined.member_id, b"mine"),)
            self.core.ask(SyncGroupRequest(group_id, joined.generation_id, joined.member_id, assignments=mine))
        return "NONE"


def _place(text: str) -> TopicPartition:
    return TopicPartition(text[:-1], int(text[-1]))


def _errors(answer: Any) -> Any:
    if isinstance(answer, ApiError):
        return answer
    names = ["NONE" if one.error is None else one.error.kafka_name for one in answer.partitions]
    return names[0] if len(set(names)) == 1 else " ".join(names)
