"""Decides whether a broker may be forgotten (UnregisterBroker, KIP-631).

Only one that nobody needs: it has no replica of any partition, coming, going or staying, so it is in no ISR and no ELR;
and its process is gone. Kafka takes a broker out of its ISRs instead, and leaves its replicas without a broker.

The dynamic configuration of the broker goes with it, and that it was cordoned. A process with its id that comes later
is a new broker: nothing that its log dirs hold belongs to a partition, so all of it is set aside as stray. A voter of
the quorum that has the same id stays one: voters are another matter than brokers (`penstock quorum remove-voter`).
"""

from __future__ import annotations

from metadata.controller.brokers.broker_state import BrokerState, state_of
from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.cordon import forgotten_cordon_record
from metadata.records import BROKER_RESOURCE, ConfigRecord, UnregisterBrokerRecord
from metadata.registrations import BrokerRegistration
from penstock.errors import ApiError, BrokerIdNotRegisteredError, PolicyViolationError
from penstock.messages.configs import ConfigResource
from penstock.messages.nodes.brokers import UnregisterBrokerRequest, UnregisterBrokerResponse


def unregister_broker(
    context: DecisionContext, request: UnregisterBrokerRequest, now_ms: int
) -> ControllerResult[UnregisterBrokerResponse]:
    """The records that forget the broker, or the error that says what must happen before."""
    try:
        broker = _checked(context, request.broker_id, now_ms)
    except ApiError as error:
        return ControllerResult((), UnregisterBrokerResponse(error))
    resource = ConfigResource(BROKER_RESOURCE, str(broker.broker_id))
    configs = (ConfigRecord(*resource, key, None) for key in sorted(context.state.configs.get(resource, {})))
    cordons = forgotten_cordon_record(broker.broker_id, context.state.configs)
    context.sessions.drop(broker.broker_id)
    return ControllerResult(
        (*configs, *cordons, UnregisterBrokerRecord(broker.broker_id, broker.broker_epoch)), UnregisterBrokerResponse()
    )


def _checked(context: DecisionContext, broker_id: int, now_ms: int) -> BrokerRegistration:
    broker = context.state.find_broker(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(
            f"broker {broker_id} is not registered; `penstock brokers list` shows those that are"
        )
    if held := _names_of_replicas(context, broker_id):
        raise PolicyViolationError(
            f"broker {broker_id} has replicas of {len(held)} partition{'' if len(held) == 1 else 's'}, such as"
            f" {held[0]}; move them to other brokers first: `penstock brokers drain {broker_id}`"
        )
    if not broker.fenced or _runs(context, broker, now_ms):
        raise PolicyViolationError(
            f"broker {broker_id} runs: the controller heard of it within the last"
            f" {context.config.session_timeout_ms} ms; stop its process first, or wait until that time is over"
        )
    return broker


def _names_of_replicas(context: DecisionContext, broker_id: int) -> list[str]:
    """The partitions that have a replica there, or will have one when their reassignment is complete."""
    topics = context.state.topics.values()
    return [f"{t.name}-{p.partition}" for t in topics for p in t.partitions.values() if broker_id in p.replicas]


def _runs(context: DecisionContext, broker: BrokerRegistration, now_ms: int) -> bool:
    """A fenced broker whose process lives would only register again; one that was let go is about to end."""
    return context.sessions.is_live(broker.broker_id, now_ms) and state_of(broker) is not BrokerState.SHUTDOWN_NOW
