"""All messages that are declared: the requests and the responses by API key."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from broker.kafka.schemas import (
    api_versions,
    cluster,
    configs,
    delegation_tokens,
    features,
    fetch,
    log_dirs,
    metadata,
    offsets,
    produce,
    producers,
    quorum,
    reassignments,
    security,
    topics,
    transactions,
)
from broker.kafka.schemas.groups import classic, consumer, coordinators
from broker.kafka.schemas.groups import offsets as group_offsets
from broker.kafka_codec.structs import facts_of

_MODULES: Final[tuple[ModuleType, ...]] = (
    api_versions,
    classic,
    cluster,
    configs,
    consumer,
    coordinators,
    delegation_tokens,
    features,
    fetch,
    group_offsets,
    log_dirs,
    metadata,
    offsets,
    produce,
    producers,
    quorum,
    reassignments,
    security,
    topics,
    transactions,
)


def _declared(module: ModuleType) -> list[type]:
    values = [value for value in vars(module).values() if isinstance(value, type)]
    return [value for value in values if "__wire__" in vars(value) and facts_of(value).is_message]


def _by_key(suffix: str) -> dict[int, type]:
    ends = [(facts_of(one).key, one) for one in MESSAGES if one.__name__.endswith(suffix)]
    return {key: one for key, one in ends if key is not None}


MESSAGES: Final = tuple(message for module in _MODULES for message in _declared(module))
REQUESTS: Final = _by_key("Request")
RESPONSES: Final = _by_key("Response")
"""The responses by API key, as `REQUESTS` has the requests."""
