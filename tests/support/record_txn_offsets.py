"""The side of a real Kafka for the scripts of offsets that transactions commit: `python -m … ADDRESS` prints it all.

The topics t (3 partitions) and u (1) must be there; every script has a group and producers of its own.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from broker.kafka.schemas.groups import classic, consumer, coordinators, offsets
from broker.kafka.schemas.producers import InitProducerIdRequest, InitProducerIdResponse
from broker.kafka.schemas.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.wire_errors.api_error import ERRORS
from tests.support.kafka_socket import KafkaSocket
from tests.support.txn_offset_scripts import Step, transcript

_MOMENT_S = 0.3
_BUSY = ("COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")


def name_of(code: int) -> str:
    return "NONE" if code == 0 else ERRORS[code].kafka_name


def by_topic(places: Any) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for place, offset in places.items():
        found.setdefault(place[:-1], []).append((int(place[-1]), offset))
    return found


class RealKafka:
    """`Side`."""

    def __init__(self, address: str) -> None:
        self._socket = KafkaSocket(address)
        self._producers: dict[str, tuple[str, int, int]] = {}
        self._members: dict[tuple[str, str], tuple[str, int]] = {}
        for key_type in (0, 1):
            self._until(lambda kind=key_type: self._find(kind))

    def _find(self, key_type: int) -> str:
        asked = coordinators.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
        return name_of(self._socket.ask(asked, 4, coordinators.FindCoordinatorResponse).coordinators[0].error_code)

    def _until(self, ask: Any) -> str:
        """The first answer that is not to be asked for again."""
        while (answer := str(ask())) in _BUSY:
            time.sleep(0.1)
        return answer

    def act(self, group_id: str, step: Step) -> str:
        done = getattr(self, "_" + step.what.replace("-", "_"))
        answer = self._until(lambda: done(group_id, step))
        if step.what == "end":
            time.sleep(_MOMENT_S)  # its markers are written after the answer
        return answer

    def _producer(self, group_id: str, name: str) -> tuple[str, int, int]:
        transactional_id = f"{group_id}-{name}"
        while transactional_id not in self._producers:
            asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            answer = self._socket.ask(asked, 5, InitProducerIdResponse)
            if answer.error_code == 0:
                self._producers[transactional_id] = transactional_id, answer.producer_id, answer.producer_epoch
            else:
                time.sleep(0.1)
        return self._producers[transactional_id]

    def _who(self, group_id: str, step: Step) -> tuple[str, int, str | None]:
        member_id, epoch = self._members.get((group_id, step.fields.get("member", "")), ("", -1))
        fields = step.fields
        return fields.get("member_id", member_id), fields.get("epoch", epoch), fields.get("instance")

    def _pend(self, group_id: str, step: Step) -> str:
        transactional_id, producer_id, epoch = self._producer(group_id, step.who)
        member_id, generation, instance = self._who(group_id, step)
        metadata = step.fields.get("metadata", "")
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=at, committed_offset=offset, committed_metadata=metadata
                    )
                    for at, offset in rows
                ],
            )
            for topic, rows in by_topic(step.places).items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id, group_id=group_id, producer_id=producer_id,
            producer_epoch=epoch + step.fields.get("bump", 0), generation_id=generation, member_id=member_id,
            group_instance_id=instance, topics=topics,
        )  # fmt: skip
        return _errors(self._socket.ask(request, 5, TxnOffsetCommitResponse), step)

    def _end(self, group_id: str, step: Step) -> str:
        transactional_id, producer_id, epoch = self._producer(group_id, step.who)
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch,
            committed=step.fields["how"] == "commit",
        )  # fmt: skip
        answer = self._socket.ask(request, 5, EndTxnResponse)
        if answer.error_code == 0:
            self._producers[transactional_id] = transactional_id, answer.producer_id, answer.producer_epoch
        return name_of(answer.error_code)

    def _commit(self, group_id: str, step: Step) -> str:
        member_id, epoch, instance = self._who(group_id, step)
        topics = [
            offsets.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offsets.OffsetCommitRequestPartition(partition_index=at, committed_offset=offset)
                    for at, offset in rows
                ],
            )
            for topic, rows in by_topic(step.places).items()
        ]
        request = offsets.OffsetCommitRequest(
            group_id=group_id, generation_id_or_member_epoch=epoch, member_id=member_id, group_instance_id=instance,
            topics=topics,
        )  # fmt: skip
        return _errors(self._socket.ask(request, 9, offsets.OffsetCommitResponse), step)

    def _fetch(self, group_id: str, step: Step) -> str:
        rows = [
            offsets.OffsetFetchRequestTopics(name=topic, partition_indexes=[at for at, _ in found])
            for topic, found in by_topic(step.places).items()
        ]
        group = offsets.OffsetFetchRequestGroup(group_id=group_id, topics=rows or None)
        request = offsets.OffsetFetchRequest(groups=[group], require_stable=step.fields["stable"])
        (answer,) = self._socket.ask(request, 9, offsets.OffsetFetchResponse).groups
        if answer.error_code:
            return name_of(answer.error_code)
        found = {
            f"{topic.name}{one.partition_index}": str(one.committed_offset)
            if one.error_code == 0
            else name_of(one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }
        return " ".join(f"{place}={found[place]}" for place in sorted(found)) or "nothing"

    def _delete(self, group_id: str, step: Step) -> str:
        topics = [
            offsets.OffsetDeleteRequestTopic(
                name=topic, partitions=[offsets.OffsetDeleteRequestPartition(partition_index=at) for at, _ in rows]
            )
            for topic, rows in by_topic(step.places).items()
        ]
        answer = self._socket.ask(
            offsets.OffsetDeleteRequest(group_id=group_id, topics=topics), 0, offsets.OffsetDeleteResponse
        )
        return name_of(answer.error_code) if answer.error_code else _errors(answer, step)

    def _delete_group(self, group_id: str, step: Step) -> str:
        request = classic.DeleteGroupsRequest(groups_names=[group_id])
        return name_of(self._socket.ask(request, 2, classic.DeleteGroupsResponse).results[0].error_code)

    def _describe(self, group_id: str, step: Step) -> str:
        request = classic.DescribeGroupsRequest(groups=[group_id])
        (group,) = self._socket.ask(request, 5, classic.DescribeGroupsResponse).groups
        return group.group_state

    def _join(self, group_id: str, step: Step) -> str:
        if step.fields["protocol"] == "consumer":
            beat = consumer.ConsumerGroupHeartbeatRequest(
                group_id=group_id, member_id=f"{step.who}".ljust(22, "A"), member_epoch=0,
                rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[],
            )  # fmt: skip
            answer = self._socket.ask(beat, 1, consumer.ConsumerGroupHeartbeatResponse)
            self._members[group_id, step.who] = answer.member_id or "", answer.member_epoch
            return name_of(answer.error_code)
        join = classic.JoinGroupRequest(
            group_id=group_id, session_timeout_ms=20_000, rebalance_timeout_ms=20_000, protocol_type="consumer",
            protocols=[classic.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
        )  # fmt: skip
        joined = self._socket.ask(join, 3, classic.JoinGroupResponse)
        self._members[group_id, step.who] = joined.member_id, joined.generation_id
        if joined.error_code or step.fields["protocol"] == "classic-unsynced":
            return name_of(joined.error_code)
        sync = classic.SyncGroupRequest(
            group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id,
            assignments=[classic.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        )  # fmt: skip
        return name_of(self._socket.ask(sync, 3, classic.SyncGroupResponse).error_code)


def _errors(answer: Any, step: Step) -> str:
    found = {
        f"{topic.name}{one.partition_index}": one.error_code for topic in answer.topics for one in topic.partitions
    }
    names = [name_of(found[place]) for place in step.places]
    return names[0] if len(set(names)) == 1 else " ".join(names)


if __name__ == "__main__":
    print(transcript(RealKafka(sys.argv[1])), end="")
