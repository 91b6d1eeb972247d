"""Kafka's numbers for the sources, the types and the owners of configuration (KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from metadata.records import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE
from penstock.messages.configs import ConfigSource

SOURCES: Final[Mapping[ConfigSource, int]] = {
    ConfigSource.UNKNOWN: 0,
    ConfigSource.DYNAMIC_TOPIC_CONFIG: 1,
    ConfigSource.DYNAMIC_BROKER_CONFIG: 2,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: 3,
    ConfigSource.STATIC_BROKER_CONFIG: 4,
    ConfigSource.DEFAULT_CONFIG: 5,
    ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG: 7,
}
DYNAMIC_BROKER_LOGGER_CONFIG: Final = 6
UNKNOWN_TYPE: Final = 0
TYPES: Final[Mapping[str, int]] = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}
"""Kafka's number of each type, by the type's name in Kafka's documentation."""
INT_TYPE, STRING_TYPE, LIST_TYPE = TYPES["int"], TYPES["string"], TYPES["list"]


class ConfigOwner(IntEnum):
    """An owner of configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


OURS: Final[Mapping[int, str]] = {
    ConfigOwner.TOPIC: TOPIC_RESOURCE,
    ConfigOwner.BROKER: BROKER_RESOURCE,
    ConfigOwner.CLIENT_METRICS: CLIENT_METRICS_RESOURCE,
}
"""The owners that this cluster configures, by our names."""
THEIRS: Final[Mapping[str, int]] = {ours: int(theirs) for theirs, ours in OURS.items()}
