"""Names and attributes of spans, by OpenTelemetry's conventions for messaging (semantic conventions 1.37, Kafka).

`messaging.system` is `kafka`: the model, its words and its attributes are Kafka's, and so tools that know those show
ours. The broker that leads the partition is the server of the span, and has an attribute of ours for its id. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

KEY_CHARACTERS_MAX: Final = 128
LINKS_MAX: Final = 128
"""OpenTelemetry's own limit of the links of a span."""
Attributes = dict[str, str | int | bool]
Headers = Sequence[tuple[str, bytes | None]]


class Broker(NamedTuple):
    """The leader of a partition, as the client knows it."""

    node_id: int
    host: str
    port: int


def sending(topic: str, client_id: str, key: bytes | None, value: bytes | None) -> Attributes:
    """The attributes of a send, as far as they are known before it."""
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.client.id": client_id,
    }
    if value is None:
        found["messaging.kafka.message.tombstone"] = True
    elif isinstance(value, bytes):
        found["messaging.message.body.size"] = len(value)
    return found | keyed(key)


def placed(partition: int, offset: int, broker: Broker | None) -> Attributes:
    """Where a record is; `offset` is negative where it has none yet."""
    found: Attributes = {"messaging.destination.partition.id": str(partition)}
    if offset >= 0:
        found["messaging.kafka.offset"] = offset
    return found | served(broker)


def served(broker: Broker | None) -> Attributes:
    """The broker that was asked, if it is known."""
    if broker is None:
        return {}
    return {"server.address": broker.host, "server.port": broker.port, "penstock.broker.id": broker.node_id}


def polling(topics: Iterable[str], group: str | None, client_id: str, count: int) -> tuple[str, Attributes]:
    """The name and the attributes of a poll that gave records."""
    named = sorted(set(topics))
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.client.id": client_id,
        "messaging.batch.message_count": count,
    }
    if group:
        found["messaging.consumer.group.name"] = group
    if len(named) == 1:
        found["messaging.destination.name"] = named[0]
    return f"poll {named[0]}" if len(named) == 1 else "poll", found


def processing(record: Any, group: str | None, client_id: str) -> Attributes:
    """The attributes of the work on one record."""
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.client.id": client_id,
    }
    if record.value is None:
        found["messaging.kafka.message.tombstone"] = True
    else:
        found["messaging.message.body.size"] = len(record.value)
    if group:
        found["messaging.consumer.group.name"] = group
    return found | placed(record.partition, record.offset, None) | keyed(record.key)


def keyed(key: Any) -> Attributes:
    """The key, where it is text: an attribute holds no bytes."""
    if not isinstance(key, bytes):
        return {}
    try:
        return {"messaging.kafka.message.key": key.decode("utf-8")[:KEY_CHARACTERS_MAX]}
    except UnicodeDecodeError:
        return {}


def carried(headers: Headers) -> dict[str, str]:
    """The headers as a propagator reads them: the first of each name, where it is text."""
    found: dict[str, str] = {}
    for name, value in headers:
        if value is not None and name not in found:
            try:
                found[name] = value.decode("ascii")
            except UnicodeDecodeError:
                continue
    return found


def with_context(headers: Any, carrier: Mapping[str, str]) -> list[tuple[str, bytes | None]]:
    """The headers of a record with those of a propagator. What the program has given itself stays: it may pass on the
    context of another system."""
    given = list(headers.items()) if isinstance(headers, Mapping) else list(headers or ())
    names = {name for name, _ in given}
    return [*given, *((name, value.encode("utf-8")) for name, value in carrier.items() if name not in names)]
