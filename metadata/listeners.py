"""The listeners of a broker: their names, and how one is written in a record and in a configuration.

    OUTSIDE://broker-1.example.com:9093      OUTSIDE://[2001:db8::1]:9093

BROKER is for clients and CONTROLLER for the quorum. inter.broker.listener.name names the one for brokers. Any other is
one more listener for clients (KIP-103), which speaks gRPC or Kafka's protocol. Not here: which listeners a node needs
(broker/config/config_check.py), and what a registration may say (controller/brokers/registration.py).
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import InvariantViolation
from penstock.types import CLIENT_LISTENER, Endpoint, ListenerEndpoint

CONTROLLER_LISTENER: Final = "CONTROLLER"
KAFKA_LISTENER: Final = "KAFKA"
"""A listener of this name speaks Kafka's protocol, unless listener.type.map has another type for it."""
RESERVED: Final = (CLIENT_LISTENER, CONTROLLER_LISTENER)
CLIENT_LISTENERS_MAX: Final = 8
"""Limit for one broker, BROKER included: each is a server of its own, with its own threads where it speaks gRPC, and a
client's answer names one of them."""
NAME_LENGTH_MAX: Final = 64

_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
_LISTENER: Final = re.compile(r"([^:/]+)://(\[[^\]]+\]|[^:/\[\]\s]+):(\d{1,5})")


def is_listener_name(text: str) -> bool:
    """Capitals, digits and underscores, no digit at first: so that a name in a key of the configuration is its only
    spelling in small letters."""
    return len(text) <= NAME_LENGTH_MAX and _NAME.fullmatch(text) is not None


def survives_a_record(listener: ListenerEndpoint) -> bool:
    """True if a record gives the listener back unchanged."""
    match = _LISTENER.fullmatch(str(listener))
    return match is not None and (match.group(1), match.group(2).strip("[]")) == (listener.name, listener.endpoint.host)


def parse_listener(text: str) -> ListenerEndpoint:
    """A listener as a record has it; InvariantViolation, because the controller wrote only what it had checked."""
    match = _LISTENER.fullmatch(text)
    if match is None or not is_listener_name(match.group(1)):
        raise InvariantViolation(f"a registration has {text!r} where NAME://host:port belongs")
    return ListenerEndpoint(match.group(1), Endpoint(match.group(2).strip("[]"), int(match.group(3))))
