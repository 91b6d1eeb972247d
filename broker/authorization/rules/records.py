"""The rules of the APIs that read and write records, and ask about them.

The partitions of Produce and Fetch are judged where they are appended and read: bytes that were found for a partition
have their place in the request, and a fetch session remembers partitions of earlier requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from broker.authorization.judge import Judge
from broker.authorization.remedy import COMMAND, LIST_COMMAND
from broker.authorization.rules.ruling import Ruling, in_parts, of_partition
from penstock.errors import ApiError, ClusterAuthorizationFailedError
from penstock.messages import offsets, produce
from penstock.messages.metadata import MetadataRequest, MetadataResponse, TopicInfo
from penstock.messages.security.acls import CLUSTER_NAME, WILDCARD, Operation, ResourceType


def produce_rule(judge: Judge, body: produce.ProduceRequest) -> Ruling:
    if body.transactional_id:
        judge.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    return Ruling(body)


def init_producer_id_rule(judge: Judge, body: produce.InitProducerIdRequest) -> Ruling:
    """A caller that may write to any topic may have a producer id (KIP-679)."""
    if body.transactional_id:
        judge.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    elif (
        not judge.may_any(Operation.WRITE, ResourceType.TOPIC)
        and judge.refusal(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER) is not None
    ):
        is_denied = judge.rights.denies(Operation.WRITE, ResourceType.TOPIC, WILDCARD) and judge.rights.denies(
            Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
        )
        way = f"an ACL denies it: `{LIST_COMMAND}`" if is_denied else f"an administrator can allow it: `{COMMAND}`"
        raise ClusterAuthorizationFailedError(
            f"{judge.rights.principal} may not Write on any topic, nor IdempotentWrite on the cluster, so it gets no"
            f" producer id; {way}"
        )
    return Ruling(body)


def metadata_rule(judge: Judge, body: MetadataRequest) -> Ruling:
    """A topic that was asked for by its name is refused, whether there is one or not; of all topics, those are told
    that the caller may describe."""
    refused: dict[str, ApiError] = {}
    for name in body.topics or ():
        error = judge.refusal(Operation.DESCRIBE, ResourceType.TOPIC, name)
        if error is not None:
            refused[name] = error
    asked = body
    if refused:
        asked = replace(body, topics=tuple(name for name in body.topics or () if name not in refused))

    def amend(response: MetadataResponse) -> MetadataResponse:
        topics = [
            _without_config(judge, one) for one in response.topics if body.topics is not None or _seen(judge, one)
        ]
        if refused and body.topics is not None:
            known = {one.name: one for one in topics}
            known |= {name: TopicInfo(name, error=error) for name, error in refused.items()}
            topics = [known[name] for name in dict.fromkeys(body.topics) if name in known]
        return replace(response, topics=tuple(topics))

    return Ruling(asked, amend)


def _seen(judge: Judge, one: TopicInfo) -> bool:
    return judge.may(Operation.DESCRIBE, ResourceType.TOPIC, one.name)


def _without_config(judge: Judge, one: TopicInfo) -> TopicInfo:
    if not one.config or not judge.shows_configs or judge.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, one.name):
        return one
    return replace(one, config={})


_LIST_OFFSETS: Final = in_parts(
    "partitions",
    offsets.ListOffsetsResponse(),
    of_partition(Operation.DESCRIBE),
    lambda part, error: offsets.ListOffsetsResult(part.partition, error),
)


def list_offsets_rule(judge: Judge, body: offsets.ListOffsetsRequest) -> Ruling:
    """A look-up by time waits for a disk: its result is judged once more when it is told."""
    ruling = _LIST_OFFSETS(judge, body)

    def still(one: offsets.ListOffsetsResult) -> offsets.ListOffsetsResult:
        error = one.error or judge.refusal(Operation.DESCRIBE, ResourceType.TOPIC, one.partition.topic)
        return one if error is one.error else offsets.ListOffsetsResult(one.partition, error)

    def amend(response: offsets.ListOffsetsResponse) -> offsets.ListOffsetsResponse:
        response = response if ruling.amend is None else ruling.amend(response)
        return replace(response, partitions=tuple(map(still, response.partitions)))

    return ruling._replace(amend=amend)
