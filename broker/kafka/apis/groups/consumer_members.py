"""ConsumerGroupHeartbeat 0 and 1 (key 68): members of the consumer protocol of groups (KIP-848).

Version 0 has no pattern, and the coordinator makes the id of a member that joins without one. An error is in the
answer's `error_code`, with its text. Not here: who gets which partitions (`broker/groups/consumer/`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.kafka.api_row import REPLICA_ELEMENTS_MAX, alone, serves
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.groups.consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from penstock.messages.groups import consumer_protocol as messages
from penstock.messages.groups.group_apis import CONSUMER_GROUP_HEARTBEAT

FIRST_WITH_OWN_IDS: Final = 1


def consumer_group_heartbeat(asked: Asked, body: ConsumerGroupHeartbeatRequest) -> Plan:
    names, owned = body.subscribed_topic_names, body.topic_partitions
    request = messages.ConsumerGroupHeartbeatRequest(
        body.group_id,
        body.member_id,
        body.member_epoch,
        body.instance_id,
        body.rack_id,
        body.rebalance_timeout_ms,
        None if names is None else tuple(names),
        body.subscribed_topic_regex,
        body.server_assignor,
        None
        if owned is None
        else tuple(messages.TopicIdPartitions(one.topic_id, tuple(one.partitions)) for one in owned),
        may_make_member_id=asked.version < FIRST_WITH_OWN_IDS,
    )
    answer: messages.ConsumerGroupHeartbeatResponse = yield Ask(CONSUMER_GROUP_HEARTBEAT.name, request)
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _assignment(topics: Iterable[messages.TopicIdPartitions]) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=one.topic_id, partitions=list(one.partitions))
            for one in topics
        ]
    )


SERVED: Final = (
    serves(
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        (0, 1),
        alone(consumer_group_heartbeat),
        elements_max=REPLICA_ELEMENTS_MAX,
    ),
)
