"""Requests of Kafka's protocol that no honest client sends, drawn from a seed for any message and version.

Pure. The structure is valid and the values are wild: each field has its default, is null, extreme, or a name that the
cluster knows; arrays sometimes have thousands of elements, records are hostile batches. What is drawn keeps to what a
node can be asked to withstand: only reads name the honest client's topic, no live broker is unregistered, and no
topic gets thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from broker.kafka.schemas.table import REQUESTS
from broker.kafka_codec.fields import MISSING_STRUCT, WireField
from broker.kafka_codec.primitives import STRING_BYTES_MAX
from broker.kafka_codec.structs import facts_of
from tests.fuzz_live.hostile import (
    BULK_TOPIC,
    FORGED_NODE_ID,
    HONEST_TOPIC,
    INTEGERS_64,
    NAMES,
    PARTITION_COUNTS,
    TOPICS,
    WAITS_MS,
    Known,
    draw_batch,
)

READS: Final = frozenset({1, 2, 3, 23, 32, 35, 46, 60, 61, 75})
"""Keys of the APIs that change nothing."""
REPEATS: Final = (0, 1, 1, 2, 2, 3, 7, 40)
REPEATS_WITHIN: Final = (0, 1, 1, 2, 3)
REPEATS_MANY: Final = (1_000, 5_000, 20_000)
MANY, DEFAULT, NULL = 0.02, 0.15, 0.2
BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS: Final = ("", "1", "-1", "zstd", "compact", "9" * 400, "\x00", "value", "é", "/", "/tmp", "x" * STRING_BYTES_MAX)
KEYS: Final = ("retention.ms", "segment.bytes", "cleanup.policy", "compression.type", "", "no.such", "k" * 900)
COUNTS: Final = frozenset({"num_partitions", "count"})
WAITS: Final = frozenset({"timeout_ms", "max_wait_ms"})
INDEXES: Final = frozenset({"partition", "partition_index", "index", "partitions", "partition_indexes", "acks"})
BROKERS: Final = frozenset({"broker_id"})
WAIT_ANSWERED_MS: Final = 100
SHORT: Final = 100


class Drawing:
    """Draws requests for one source of randomness."""

    def __init__(self, source: Random, known: Known) -> None:
        self._source, self._known = source, known
        self._reads = self._waits = False
        self._is_short = False
        """True within one of many elements: a request of hundreds of megabytes is refused by its size."""

    def request(self, key: int, version: int, *, may_wait: bool = False) -> Any:
        """One of an API. `may_wait`: for as long as it says, which may be for ever."""
        self._reads, self._waits = key in READS, may_wait
        return self._struct(REQUESTS[key], version, 0)

    def _struct(self, cls: type, version: int, depth: int) -> Any:
        fields = [(name, wired) for name, wired in facts_of(cls).fields if version in wired.versions]
        made = cls()
        for name, wired in fields:
            if name in COUNTS | WAITS | BROKERS or self._source.random() >= DEFAULT:
                setattr(made, name, self._field(name, wired, version, depth))
        return made

    def _field(self, name: str, wired: WireField, version: int, depth: int) -> Any:
        source = self._source
        if version in wired.null and source.random() < NULL and not (name == "topic_partitions" and not self._reads):
            return None
        if wired.kind != "array":
            element = wired.element if wired.kind == "struct" else wired.kind
            return self._value(name, element, version, depth)
        if depth == 0 and source.random() < MANY:
            self._is_short = True
            one = self._value(name, wired.element, version, 1)
            self._is_short = False
            return [one] * source.choice(REPEATS_MANY)
        count = source.choice(REPEATS if depth == 0 else REPEATS_WITHIN)
        return [self._value(name, wired.element, version, depth + 1) for _ in range(count)]

    def _value(self, name: str, kind: type | str, version: int, depth: int) -> Any:
        if isinstance(kind, type):
            return self._struct(kind, version, depth)
        if kind == "string":
            return self._text(name)
        if kind in ("records", "bytes"):
            return draw_batch(self._source)[: SHORT if self._is_short else None]
        if kind == "boolean":
            return self._source.random() < 0.5
        if kind == "float64":
            return self._source.choice((0.0, -1.5, float("inf"), float("nan")))
        if kind == "uuid":
            return self._topic_id()
        return self._integer(name, kind)

    def _text(self, name: str) -> str:
        source = self._source
        if name == "cluster_id":
            return source.choice((self._known.cluster_id, "", "another", "c" * 5_000))
        if name in ("name", "topic", "topics", "topic_name", "topic_names", "resource_name"):
            return source.choice((*TOPICS, *TOPICS, *NAMES, *self._honest()))
        if name in ("key", "config_name", "configuration_keys"):
            return source.choice(KEYS)
        return source.choice((*TEXTS, *KEYS))[: SHORT if self._is_short else None]

    def _honest(self) -> tuple[str, ...]:
        return (HONEST_TOPIC, HONEST_TOPIC, BULK_TOPIC) if self._reads else ()

    def _topic_id(self) -> str:
        names = (*TOPICS, *self._honest())
        ids = [self._known.topic_ids[name] for name in names if name in self._known.topic_ids]
        return self._source.choice((*ids, *ids, "", "AAAAAAAAAAAAAAAAAAAAAQ"))

    def _integer(self, name: str, kind: str) -> int:
        source = self._source
        if name in COUNTS:
            return source.choice(PARTITION_COUNTS)
        if name in WAITS:
            return source.choice(WAITS_MS) if self._waits else source.choice((0, 1, WAIT_ANSWERED_MS, -1))
        if name in BROKERS:
            return FORGED_NODE_ID
        if name in INDEXES and source.random() < 0.8:
            return source.choice((-1, 0, 0, 1, 2))
        if kind == "uint16":
            return source.choice((0, 1, 0xFFFF))
        low, high = -(1 << BITS[kind] - 1), (1 << BITS[kind] - 1) - 1
        return source.choice([number for number in (*INTEGERS_64, low, high) if low <= number <= high])


def empty_arrays(key: int, version: int, count: int) -> Sequence[Any]:
    """For each array of the request one that has so many of the smallest elements; strings are "", numbers 0."""
    cls = REQUESTS[key]
    found = []
    for name, wired in facts_of(cls).fields:
        if wired.kind == "array" and version in wired.versions and wired.tag is None:
            element = _SMALLEST.get(wired.element, 0) if not isinstance(wired.element, type) else _smallest(wired)
            made = cls()
            setattr(made, name, [element] * count)
            found.append(made)
    return found


def _smallest(wired: WireField) -> Any:
    made = wired.element()
    for name, inner in facts_of(wired.element).fields:
        if inner.default is MISSING_STRUCT:
            setattr(made, name, inner.element())
    return made


_SMALLEST: Final[Mapping[str, Any]] = {"string": "", "uuid": "", "bytes": b"", "records": b"", "boolean": False}
