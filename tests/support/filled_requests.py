"""Requests of Kafka's protocol that name one of everything that they can name, for any class and version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from broker.kafka_codec.structs import facts_of
from penstock.record.builder import build_batch

BATCH = build_batch([b"v"], timestamps_ms=1)
NAMES = ("name", "topic")
TOPIC_FIELDS = (*NAMES, "topics", "topic_name", "topic_names", "resource_name", "subscribed_topic_names")
TEXTS = {
    "entity_type": "user",
    "entity_name": "anna",
    "value": "1",
    "client_software_name": "a",
    "client_software_version": "1",
    "protocol_type": "consumer",
    "protocol_name": "range",
}
NUMBERS: dict[str, Any] = {
    "resource_type": 2,
    "records": BATCH,
    "endpoint_type": 1,
    "operation": 1,
    "permission_type": 1,
}


@dataclass(frozen=True)
class Named:
    """The names in requests. `given` has values of fields by API."""

    topic: str
    topic_id: str
    group: str = "g-secret"
    transactional_id: str = "x-secret"
    given: dict[int, dict[str, Any]] = field(default_factory=dict)


def filled(cls: Any, version: int, named: Named, key: int, *, is_top: bool = True) -> Any:
    """A request that names one of everything that it can name."""
    values: dict[str, Any] = {}
    for name, place in facts_of(cls).fields:
        if version not in place.versions or name == "cursor":
            continue
        if place.kind == "array":
            element = place.element
            one = (
                filled(element, version, named, key, is_top=False)
                if isinstance(element, type)
                else value_of(name, str(element), named)
            )
            values[name] = [] if one is None else [one]
        elif place.kind == "string" and (text := value_of(name, "string", named)) is not None:
            values[name] = text
        elif place.kind == "uuid" and not has_name(cls, version):
            values[name] = named.topic_id
        elif name in NUMBERS:
            values[name] = NUMBERS[name]
        elif name == "group_instance_id":
            values[name] = None
    return cls(**values, **({k: v for k, v in named.given.get(key, {}).items() if k not in values} if is_top else {}))


def has_name(cls: Any, version: int) -> bool:
    """The version names the topic beside its id, or in its place."""
    return any(name in NAMES and version in place.versions for name, place in facts_of(cls).fields)


def value_of(name: str, kind: str, named: Named) -> Any:
    if kind != "string":
        return 0 if kind.startswith("int") and name not in ("resource_types",) else None
    if "transactional_id" in name:
        return named.transactional_id
    if "group" in name or name in ("key", "coordinator_keys"):
        return None if name == "group_instance_id" else named.group
    return named.topic if name in TOPIC_FIELDS else TEXTS.get(name)


PLACES = ("partition", "partition_index", "partition_id", "partitions", "partition_indexes", "index")


def placed(message: Any, number: int, *, twice: bool = False) -> Any:
    """The message, with each partition in it at this number, and with each element of a list twice."""
    for name, place in facts_of(type(message)).fields:
        value = getattr(message, name)
        if name in PLACES and isinstance(value, int):
            setattr(message, name, number)
        elif name in PLACES and isinstance(value, list) and value and isinstance(value[0], int):
            setattr(message, name, [number for _ in value])
        elif isinstance(place.element, type) and value is not None:
            for one in value if isinstance(value, list) else [value]:
                placed(one, number, twice=twice)
            if twice and isinstance(value, list):
                value += value
    return message


def codes(answer: Any) -> Iterator[int]:
    """Every error code in it."""
    for name, place in facts_of(type(answer)).fields:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(place.element, type):
            for one in value if isinstance(value, list) else [] if value is None else [value]:
                yield from codes(one)
