"""Makes one of the cluster's own topics when a broker's coordinator needs it for the first time.

The topic is made once: every later request, of any broker, finds it. The broker that asks gives the number of
partitions and the settings, from its configuration. If it gives no replication factor, the topic gets three replicas,
or as many as the cluster has brokers for. That is known where the quorum's voters are brokers: the cluster has as many
brokers as voters at least, whether all of them have started or not. So a node that is alone in its quorum makes it with
one replica; a quorum of three never does, however slowly two of them start: the topic is not made before three brokers
are registered. A quorum of controllers alone says nothing about brokers, and then it takes three, as in Kafka. Any of
the three may be away, as for any other topic.

A broker that is starting will be in service in a moment, and could lead its share of the partitions; placed now, it
would lead none. So the topic waits for it: in a new cluster the first program often comes when the first broker does.
It waits for one session time-out at most, because a process that crashes again and again is always starting.

Not here: which topics there are (metadata/internal_topics.py), and the brokers' requests (broker/coordination/).
"""

from __future__ import annotations

from typing import Final

from metadata.controller.brokers.broker_state import BrokerState, state_of
from metadata.controller.brokers.liveness import registered_broker
from metadata.controller.context import NAME_SHOWN, DecisionContext
from metadata.controller.result import ControllerResult
from metadata.controller.topics.assignments import brokers_for
from metadata.controller.topics.topics import NewRecords, add_topic
from metadata.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE
from metadata.topic_config import MIN_INSYNC_REPLICAS
from penstock.balance.racks import rack_count
from penstock.errors import InvalidReplicationFactorError, InvalidTopicError
from penstock.messages.topics import (
    USE_DEFAULT,
    CreateInternalTopicRequest,
    CreateInternalTopicResponse,
    NewTopic,
)
from penstock.types import METADATA_TOPIC

REPLICAS_MAX: Final = 3
"""Kafka's default of offsets.topic.replication.factor."""
_FACTOR_KEYS: Final = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
}


class InternalTopics:
    """One per controller. Its only state is since when a topic waits for brokers that start."""

    def __init__(self, context: DecisionContext) -> None:
        self._context = context
        self._waits_since_ms: dict[str, int] = {}  # names of INTERNAL_TOPICS only, so it is bounded

    def create(self, request: CreateInternalTopicRequest, now_ms: int) -> ControllerResult[CreateInternalTopicResponse]:
        """Makes the topic for a registered broker under its present epoch. InvalidReplicationFactorError while too few
        brokers are registered, or one of them is starting."""
        context = self._context
        registered_broker(context, request.broker_id, request.broker_epoch)
        internal = INTERNAL_TOPICS.get(request.name)
        if internal is None or request.name == METADATA_TOPIC:
            raise InvalidTopicError(f"{request.name[:NAME_SHOWN]!r} is none of the topics that coordinators write to")
        existing = context.state.topic_named(request.name)
        if existing is not None:
            return ControllerResult((), CreateInternalTopicResponse(existing.topic_id))
        factor = request.replication_factor
        if factor == USE_DEFAULT:
            factor = min(REPLICAS_MAX, expected_brokers(context), expected_racks(context))
        brokers_for(context, f"{_FACTOR_KEYS[request.name]} = {factor} of {request.name}", factor)
        records = NewRecords()
        config = {**internal.config, **request.config}
        if (wanted := config.get(MIN_INSYNC_REPLICAS)) is not None and wanted.isdecimal():
            # else nothing could be written with fewer replicas
            config[MIN_INSYNC_REPLICAS] = str(min(int(wanted), factor))
        topic = NewTopic(request.name, request.partitions, factor, config)
        made = add_topic(context, topic, records)
        self._wait_for_starting(request.name, now_ms)
        return ControllerResult(tuple(records.records), CreateInternalTopicResponse(made.topic_id, was_made=True))

    def _wait_for_starting(self, name: str, now_ms: int) -> None:
        """InvalidReplicationFactorError if the topic should wait, for so long as it may."""
        starting = sorted(
            broker_id for broker_id in self._context.state.brokers if self._is_starting(broker_id, now_ms)
        )
        since_ms = self._waits_since_ms.setdefault(name, now_ms) if starting else now_ms
        if starting and now_ms < since_ms + self._context.config.session_timeout_ms:
            raise InvalidReplicationFactorError(
                f"{name} waits for broker {starting[0]}, which is starting, so that it leads its share of the"
                " partitions; ask again"
            )
        self._waits_since_ms.pop(name, None)

    def _is_starting(self, broker_id: int, now_ms: int) -> bool:
        """True if its process lives, and was not in service yet."""
        context = self._context
        is_alive = context.sessions.is_live(broker_id, now_ms) and not context.sessions.stands_still(broker_id, now_ms)
        return is_alive and state_of(context.state.brokers[broker_id]) is BrokerState.FENCED


def expected_brokers(context: DecisionContext) -> int:
    """How many brokers the cluster has when all of them have started, as far as that is known; else three."""
    registered, voters = context.state.brokers.keys(), context.voters()
    return max(len(registered), REPLICAS_MAX if registered.isdisjoint(voters.ids) else len(voters))


def expected_racks(context: DecisionContext) -> int:
    """How many replicas the racks take when all brokers have started, as far as that is known; else three. A voter that
    is not registered yet may be in a rack of its own."""
    registered, voters = context.state.brokers.keys(), context.voters()
    if not context.cluster.one_replica_per_rack or registered.isdisjoint(voters.ids):
        return REPLICAS_MAX
    return rack_count({*registered, *voters.ids}, context.state.rack_of)
