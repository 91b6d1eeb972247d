"""Makes one of the cluster's own topics when a broker's coordinator needs it for the first time.

Made once: to every later request, of any broker, the topic is there. The broker that asks gives the number of
partitions and the settings, from its configuration. If it gives no replication factor, the topic gets three replicas,
or as many as the cluster has brokers for. That is known where the quorum's voters are brokers: the cluster has as many
brokers as voters at least, whether all of them have started or not. So a node that is alone in its quorum makes it with
one replica; a quorum of three never does, however slowly two of them start: the topic is not made before three brokers
are in service. A quorum of controllers alone says nothing about brokers, and then it takes three, as in Kafka.

Not here: which topics there are (metadata/internal_topics.py), and who asks (broker/coordination/).
"""

from __future__ import annotations

from typing import Final

from metadata.controller.brokers.liveness import registered_broker
from metadata.controller.context import NAME_SHOWN, DecisionContext
from metadata.controller.result import ControllerResult
from metadata.controller.topics.topics import NewRecords, add_topic
from metadata.internal_topics import INTERNAL_TOPICS
from metadata.topic_config import MIN_INSYNC_REPLICAS
from penstock.errors import InvalidTopicError
from penstock.messages.topics import (
    USE_DEFAULT,
    CreateInternalTopicRequest,
    CreateInternalTopicResponse,
    NewTopic,
)
from penstock.types import METADATA_TOPIC

REPLICAS_MAX: Final = 3
"""Kafka's default of offsets.topic.replication.factor."""


def create_internal_topic(
    context: DecisionContext, request: CreateInternalTopicRequest
) -> ControllerResult[CreateInternalTopicResponse]:
    """For a registered broker under its present epoch. InvalidReplicationFactorError while too few brokers live."""
    registered_broker(context, request.broker_id, request.broker_epoch)
    internal = INTERNAL_TOPICS.get(request.name)
    if internal is None or request.name == METADATA_TOPIC:
        raise InvalidTopicError(f"{request.name[:NAME_SHOWN]!r} is none of the topics that coordinators write to")
    existing = context.state.topic_named(request.name)
    if existing is not None:
        return ControllerResult((), CreateInternalTopicResponse(existing.topic_id))
    factor = request.replication_factor
    if factor == USE_DEFAULT:
        factor = min(REPLICAS_MAX, expected_brokers(context))
    records = NewRecords()
    config = {**internal.config, **request.config}
    if (wanted := config.get(MIN_INSYNC_REPLICAS)) is not None and wanted.isdecimal():
        config[MIN_INSYNC_REPLICAS] = str(min(int(wanted), factor))  # else nothing could be written with fewer replicas
    topic = NewTopic(request.name, request.partitions, factor, config)
    made = add_topic(context, topic, records)
    return ControllerResult(tuple(records.records), CreateInternalTopicResponse(made.topic_id, was_made=True))


def expected_brokers(context: DecisionContext) -> int:
    """How many brokers the cluster has when all of them have started, as far as that is known; else three."""
    registered, voters = context.state.brokers.keys(), context.config.voters
    return max(len(registered), len(voters) if registered & voters else REPLICAS_MAX)
