"""Mistakes with several listeners for clients (KIP-103): a client is told of an address of another one."""

from __future__ import annotations

from broker.apis.cluster.metadata import node_view
from broker.grpc.callers import AnonymousCallers
from broker.node.registration.broker_registration import registration
from penstock.types import LeaderHint
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import Aim, Fault, Kind

_OUTSIDE = with_parts(directed(Fault(1.0, Kind.STOP, 1, 0, 1.0, 0.5, Aim.LEADER), copies=2), outside=True)

LISTENERS = (
    Mutant(
        "metadata names the addresses of the listener BROKER",
        "KIP-103",
        (Edit(node_view, "broker.endpoint_at(listener) or", "broker.endpoint or"),),
        stories=_OUTSIDE,
    ),
    Mutant(
        "a listener does not know its name",
        "KIP-103",
        (Edit(AnonymousCallers.caller, "self._listener)", "'BROKER')"),),
        stories=_OUTSIDE,
    ),
    Mutant(
        "a hint names the address at the listener BROKER",
        "KIP-103",
        (Edit(LeaderHint.at, "if listener == CLIENT_LISTENER or", "if True or"),),
        stories=_OUTSIDE,
    ),
    Mutant(
        "a broker registers without its other listeners",
        "KIP-103",
        (Edit(registration, "listeners=config.more_advertised", "listeners=()"),),
        stories=_OUTSIDE,
    ),
)
