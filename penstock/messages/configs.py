"""DescribeConfigs and AlterConfigs: configuration at run time (KIP-226, KIP-339).

A resource is a topic by its name, or a broker by its id; "" as a broker's name is all of them. A subscription to the
metrics of clients (KIP-714) is one by the name that an operator gave it.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fields import on_wire
from penstock.types import NO_OFFSET


class ConfigResource(NamedTuple):
    """The owner of a configuration, for instance ("topic", "orders"). A broker's name is its id, "" that of all."""

    resource_type: str
    resource_name: str


class ConfigOperation(IntEnum):
    """A way to change a key; the codes are Kafka's (KIP-339)."""

    SET = 0
    DELETE = 1  # back to the default
    APPEND = 2  # to a list, what is not in it yet
    SUBTRACT = 3  # from a list, what is in it


class ConfigChange(NamedTuple):
    """One key of one resource. `operation` is the number that came; the controller judges it."""

    key: str
    operation: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class AlterConfigsResource:
    """Changes of one resource, all or none; what is not named stays as it is."""

    resource_type: str
    resource_name: str
    changes: tuple[ConfigChange, ...]
    replace_all: bool = False
    """Every other key goes back to its default. A controller of an older release does not know this."""


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AlterConfigsResult:
    resource_type: str
    resource_name: str
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse:
    """The results, in the order of the request."""

    resources: tuple[AlterConfigsResult, ...] = ()
    metadata_offset: int = NO_OFFSET


class ConfigSource(StrEnum):
    """The origin of an effective value, in Kafka's words."""

    UNKNOWN = "UNKNOWN"
    """A source that this release does not know."""
    DYNAMIC_TOPIC_CONFIG = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER_CONFIG = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER_CONFIG = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"
    DYNAMIC_CLIENT_METRICS_CONFIG = "DYNAMIC_CLIENT_METRICS_CONFIG"
    DEFAULT_CONFIG = "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class DescribeConfigsResource:
    """`keys` is empty for all of them."""

    resource_type: str
    resource_name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that a key has, and its source. `name` is the node's key where that key gives a topic its value."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One effective key: its value as text, and where it comes from in Kafka's words."""

    name: str = field(metadata=on_wire("key"))
    value: str
    source: ConfigSource
    """DYNAMIC_{TOPIC,BROKER,DEFAULT_BROKER}_CONFIG, STATIC_BROKER_CONFIG (the node's file) or DEFAULT_CONFIG."""
    type: str
    documentation: str
    is_read_only: bool = False
    """True if only the node's file has the key, and a restart changes it."""
    synonyms: tuple[ConfigSynonym, ...] = ()
    """Every value that the key has, if asked for: the one in force first, the default last."""

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class DescribeConfigsResult:
    resource_type: str
    resource_name: str
    error: ApiError | None = None
    configs: tuple[ConfigEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsResponse:
    """The results, in the order of the request, by the answering node's image."""

    resources: tuple[DescribeConfigsResult, ...]
    metadata_offset: int
