"""OffsetDelete 0 (key 47): committed offsets of a group are forgotten, where no member reads the topic (KIP-496).

A topic or partition that there is not has its error without being asked about. An error of the request as a whole, such
as GROUP_ID_NOT_FOUND, is the answer's own.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.groups.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.errors import ApiError, UnknownTopicOrPartitionError
from penstock.messages.client_apis import PARTITIONS_MAX
from penstock.messages.groups import offsets as messages
from penstock.messages.groups.group_apis import OFFSET_DELETE
from penstock.messages.security.acls import Operation
from penstock.types import TopicPartition


def offset_delete(parts: PlanParts, asked: Asked, body: OffsetDeleteRequest) -> Plan:
    parts.rights.check_group(asked.caller, OFFSET_DELETE.name, Operation.DELETE, body.group_id)
    image, numbers = parts.image(), count()
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    wanted: list[tuple[TopicPartition, OffsetDeleteResponsePartition]] = []
    for topic in body.topics:
        rows = topics.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name)).partitions
        for part in topic.partitions:
            if is_pause_due(next(numbers)):
                yield PAUSE
            answer = OffsetDeleteResponsePartition(partition_index=part.partition_index)
            rows.append(answer)
            try:
                parts.rights.check_topic(asked.caller, OFFSET_DELETE.name, Operation.READ, topic.name)
            except ApiError as error:
                answer.error_code = code_of(error, OFFSET_DELETE.name, asked.version)
                continue
            if image.partition(topic.name, part.partition_index) is None:
                answer.error_code = UnknownTopicOrPartitionError.code
            else:
                wanted.append((TopicPartition(topic.name, part.partition_index), answer))
    for at in range(0, len(wanted), PARTITIONS_MAX):
        some = wanted[at : at + PARTITIONS_MAX]
        request = messages.OffsetDeleteRequest(body.group_id, tuple(key for key, _ in some))
        made: messages.OffsetDeleteResponse = yield Ask(OFFSET_DELETE.name, request)
        for (_, answer), result in zip(some, made.partitions, strict=True):
            answer.error_code = code_of(result.error, OFFSET_DELETE.name, asked.version)
    return OffsetDeleteResponse(topics=list(topics.values()))


SERVED: Final = (serves(OffsetDeleteRequest, OffsetDeleteResponse, (0, 0), over(offset_delete)),)
