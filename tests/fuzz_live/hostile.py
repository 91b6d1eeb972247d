"""Requests that no honest client sends, drawn from a seed for any protobuf message.

Pure. Each field is left out, empty, extreme, a name that the cluster knows, or a nested message of the same making;
repeated fields sometimes have thousands of elements; then the bytes themselves may be damaged. `tamed` keeps to what a
node can be asked to withstand: nothing is aimed at the honest client's topic but reads, and no message between nodes
is right in its cluster id, its node id and its epoch all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from penstock.record.builder import build_batch
from tests.fuzz_live.surface import Method
from tests.support.mutation import mutated

HONEST_TOPIC = "honest"
TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2")
"""Topics that may be written, changed and deleted by anybody."""
BULK_TOPIC, BULK_PARTITIONS = "bulk", 3
"""Has large records, to be read."""
NAMES = (*TOPICS, "", "nobody-made-this", "..", "a/b", "x" * 249, "y" * 300, "\0", "é" * 50, "__cluster_metadata", "-1")
INTEGERS_32 = (0, 1, 2, -1, -2, 5, 100, 1 << 15, (1 << 31) - 1, (1 << 31) - 2, -(1 << 31))
INTEGERS_64 = (*INTEGERS_32, 1 << 40, (1 << 63) - 1, -(1 << 63), 1 << 62)
WAITS_MS = (0, 1, 100, -1, 1 << 20, (1 << 31) - 1, -(1 << 31))
PARTITION_COUNTS = (-(1 << 31), -2, -1, 0, 1, 2, 3, 10_001, (1 << 31) - 1)
"""Partition counts of a new topic: few or refused, because thousands of partitions are what an administrator may ask
for."""
REPEATS = (0, 1, 1, 2, 2, 3, 7, 40)
REPEATS_MANY = (1_000, 20_000, 100_000)
MANY = 0.02
RIGHT_TOPIC_ID = 0.6
ABSENT, DAMAGED, UNKNOWN_FIELDS = 0.2, 0.25, 0.1
DEPTH_MAX = 5
NODE_IDS = 16
"""Ids below this may be nodes of the cluster."""
FORGED_NODE_ID = 4_242
READS = frozenset({"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "Metadata", "DescribeConfigs"})

Integers = {
    FieldDescriptor.TYPE_INT32: INTEGERS_32,
    FieldDescriptor.TYPE_SINT32: INTEGERS_32,
    FieldDescriptor.TYPE_UINT32: tuple(n & 0xFFFF_FFFF for n in INTEGERS_32),
    FieldDescriptor.TYPE_INT64: INTEGERS_64,
    FieldDescriptor.TYPE_SINT64: INTEGERS_64,
    FieldDescriptor.TYPE_UINT64: tuple(n & ((1 << 64) - 1) for n in INTEGERS_64),
}


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that anybody can learn from the cluster."""

    cluster_id: str
    topic_ids: dict[str, str]


def draw_request(source: Random, method: Method, known: Known) -> bytes:
    """One request of a method as bytes."""
    message = method.new_request()
    _fill(source, message, known, 0)
    tamed(message, method)
    data = message.SerializeToString()
    if source.random() < UNKNOWN_FIELDS:
        data += _unknown_field(source)
    if source.random() < DAMAGED:
        data = _tamed_bytes(mutated(source, data, draw_batch(source)), method)
    return data


def draw_batch(source: Random) -> bytes:
    """Record bytes: good, damaged, none, or noise."""
    values = [source.randbytes(source.choice((0, 1, 20, 200))) for _ in range(source.choice((1, 1, 3, 50)))]
    good = build_batch(values, timestamps_ms=source.choice((0, 1_700_000_000_000)))
    makers: tuple[Callable[[], bytes], ...] = (
        lambda: good,
        lambda: good,
        lambda: good * source.choice((2, 30)),
        lambda: mutated(source, good, good),
        lambda: mutated(source, good, good),
        lambda: b"",
        lambda: good[: source.randrange(len(good))],
        lambda: source.randbytes(source.randrange(300)),
    )
    return source.choice(makers)()


def tamed(message: Message, method: Method) -> None:
    """Changes what would be an order that the cluster has to obey, or a forgery that it cannot tell from a node."""
    if method.is_between_nodes or getattr(message, "replica_id", -1) >= 0:
        _break_identity(message)
    if method.name not in READS:
        _spare_the_honest(message)


def _tamed_bytes(data: bytes, method: Method) -> bytes:
    """The same for damaged bytes; what cannot be parsed is no order."""
    message = method.new_request()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return data
    before = message.SerializeToString()
    tamed(message, method)
    after = message.SerializeToString()
    return data if before == after else after


def _fill(source: Random, message: Message, known: Known, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if source.random() < ABSENT:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(source.choice(REPEATS)):
                getattr(message, field.name)[_text(source, "key", known)] = _text(source, "value", known)
        elif field.is_repeated:
            _fill_repeated(source, message, field, known, depth)
        elif field.message_type is not None:
            if depth < DEPTH_MAX:
                _fill(source, getattr(message, field.name), known, depth + 1)
        else:
            setattr(message, field.name, _scalar(source, message, field, known))
    if {"topic", "topic_id"} <= set(message.DESCRIPTOR.fields_by_name) and source.random() < RIGHT_TOPIC_ID:
        message.topic_id = known.topic_ids.get(message.topic, "")  # type: ignore[attr-defined]


def _fill_repeated(source: Random, message: Message, field: FieldDescriptor, known: Known, depth: int) -> None:
    is_many = depth == 0 and source.random() < MANY
    target = getattr(message, field.name)
    if is_many:
        one = target.add() if field.message_type is not None else None
        for _ in range(source.choice(REPEATS_MANY)):
            target.append(one if one is not None else _scalar(source, message, field, known))
        return
    for _ in range(source.choice(REPEATS)):
        if field.message_type is None:
            target.append(_scalar(source, message, field, known))
        elif depth < DEPTH_MAX:
            _fill(source, target.add(), known, depth + 1)


def _scalar(source: Random, message: Message, field: FieldDescriptor, known: Known) -> object:
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(source, field.name, known)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw_batch(source)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return source.random() < 0.5
    if field.type == FieldDescriptor.TYPE_ENUM:
        return source.choice((0, 1, 2, 3, 4, 99, -1))
    if message.DESCRIPTOR.name == "NewTopic" and field.name == "partitions":
        return source.choice(PARTITION_COUNTS)
    if field.name.endswith(("wait_ms", "timeout_ms")):
        return source.choice(WAITS_MS)
    if field.name in ("partition", "acks", "replica_id"):
        return source.choice((-1, 0, 0, 1, 2, source.choice(INTEGERS_32)))
    if field.type in Integers:
        return source.choice(Integers[field.type])
    return source.choice((0.0, -1.5, float("inf"), float("nan")))


def _text(source: Random, name: str, known: Known) -> str:
    if name == "cluster_id":
        return source.choice((known.cluster_id, known.cluster_id, "", "another", "c" * 5_000))
    if name == "topic_id":
        return source.choice((*known.topic_ids.values(), "", "AAAAAAAAAAAAAAAAAAAAAA", "no id", "i" * 300))
    if name == "topic_ids":  # what is to be deleted
        others = [known.topic_ids[topic] for topic in TOPICS if topic in known.topic_ids]
        return source.choice((*others, "", "AAAAAAAAAAAAAAAAAAAAAA", "no id", "i" * 300))
    if name in ("topic", "name", "topics", "resource_name"):
        return source.choice((*TOPICS, *TOPICS, HONEST_TOPIC, *NAMES))
    if name == "resource_type":
        return source.choice(("topic", "topic", "broker", "", "TOPIC", "\0"))
    if name in ("key", "keys"):
        return source.choice(
            ("retention.ms", "segment.bytes", "cleanup.policy", "compression.type", "", "no.such", "k" * 900)
        )
    return source.choice(("", "1", "-1", "zstd", "compact", "9" * 400, "\x00", "value", "é"))


def _break_identity(message: Message) -> None:
    """At least one of cluster id, node ids and epochs is wrong."""
    names = {field.name for field in message.DESCRIPTOR.fields}
    ids = names & {"replica_id", "broker_id", "candidate_id", "leader_id"}
    for name in ids:
        if 0 <= getattr(message, name) < NODE_IDS:
            setattr(message, name, FORGED_NODE_ID)


def _spare_the_honest(message: Message) -> None:
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                _spare_the_honest(one)
        elif field.type == FieldDescriptor.TYPE_STRING and field.is_repeated:
            spared = [TOPICS[0] if text == HONEST_TOPIC else text for text in value]
            del value[:]
            value.extend(spared)
        elif value == HONEST_TOPIC:
            setattr(message, field.name, TOPICS[0])


def _unknown_field(source: Random) -> bytes:
    """A field of number 1000 and up: a varint, or bytes."""
    tag = (source.randrange(1_000, 2_000) << 3) | 2
    payload = source.randbytes(source.choice((0, 3, 3_000)))
    return _varint(tag) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
