"""Parses where a read begins or ends, from Kafka's startingOffsets and endingOffsets, and resolves it to offsets.

Pure. `Boundary.parse…` understands the words `earliest` and `latest`, Kafka's JSON `{"topic": {"0": 23, "1": -2}}`
(-2 is earliest, -1 latest) and its twin with times in ms. `resolve` asks a `LogClient` once for everything that is
not a number already. Which of several options counts is decided in options.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1
"""The two words as Kafka's offset JSON writes them."""

AskOffsets = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""Partition to time (or sentinel), answered with partition to offset; -1 when no record is that late."""


class BoundaryKind(Enum):
    """How a boundary is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    TIMESTAMPS = "timestamps"
    GROUP = "group"
    """The committed offsets of a consumer group; the log start where it has committed nothing."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One end of a read, and the option that gave it; `or_latest`: a time without a record means the end."""

    kind: BoundaryKind
    option: str
    values: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int = -1
    or_latest: bool = False
    group_id: str = ""


def parse_offsets(option: str, text: str, group_id: str | None = None) -> Boundary:
    """`earliest`, `latest`, or Kafka's JSON of offsets; `group` where a read may begin at a group's offsets."""
    word = text.strip().lower()
    if word == "group" and group_id is not None:
        if not group_id:
            raise ConfigError(f"option {option}=group needs kafka.group.id: the group whose committed offsets count")
        return Boundary(BoundaryKind.GROUP, option, group_id=group_id)
    if word in ("earliest", "latest"):
        return Boundary(BoundaryKind(word), option)
    values = _parse_json(option, text, '\'earliest\', \'latest\' or JSON like {"topic": {"0": 23, "1": -2}}')
    for tp, offset in values.items():
        if offset < EARLIEST_OFFSET:
            raise ConfigError(
                f"option {option}: offset {offset} of {tp} must be 0 or more, -1 (latest) or -2 (earliest)"
            )
    return Boundary(BoundaryKind.OFFSETS, option, values)


def parse_timestamp(option: str, text: str, or_latest: bool) -> Boundary:
    """One time in ms for every partition."""
    try:
        timestamp_ms = int(text)
    except ValueError:
        timestamp_ms = -1
    if timestamp_ms < 0:
        raise ConfigError(f"option {option}={text!r} must be a time in ms since 1970")
    return Boundary(BoundaryKind.TIMESTAMP, option, timestamp_ms=timestamp_ms, or_latest=or_latest)


def parse_timestamps(option: str, text: str, or_latest: bool) -> Boundary:
    """JSON of a time in ms for each partition."""
    values = _parse_json(option, text, 'JSON like {"topic": {"0": 1700000000000}}')
    for tp, timestamp_ms in values.items():
        if timestamp_ms < 0:
            raise ConfigError(f"option {option}: time {timestamp_ms} of {tp} must be in ms since 1970")
    return Boundary(BoundaryKind.TIMESTAMPS, option, values, or_latest=or_latest)


def _parse_json(option: str, text: str, wanted: str) -> dict[TopicPartition, int]:
    try:
        topics = json.loads(text)
        values = {
            TopicPartition(topic, int(partition)): value
            for topic, partitions in topics.items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"option {option}={text!r} must be {wanted}") from None
    for tp, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or tp.partition < 0:
            raise ConfigError(f"option {option}: {tp} has {value!r}; it must be {wanted}")
    return values


def resolve(boundary: Boundary, partitions: Iterable[TopicPartition], ask: AskOffsets) -> dict[TopicPartition, int]:
    """The offset of every partition, with one request for all that are not known."""
    wanted = list(partitions)
    _check_complete(boundary, wanted)
    questions = {tp: question for tp in wanted if (question := _question(boundary, tp)) is not None}
    answers = ask(questions) if questions else {}
    found = {tp: answers[tp] if tp in questions else boundary.values[tp] for tp in wanted}
    late = [tp for tp, offset in found.items() if offset < 0]
    if late and not boundary.or_latest:
        raise ConfigError(
            f"option {boundary.option}: {', '.join(map(str, late))} has no record at or after that time; "
            "choose an earlier one, or set startingOffsetsByTimestampStrategy=latest"
        )
    return found | dict(ask(dict.fromkeys(late, LATEST_TIMESTAMP))) if late else found


def _check_complete(boundary: Boundary, wanted: list[TopicPartition]) -> None:
    """Kafka's rule: the JSON names exactly the partitions that are read, so that none is forgotten."""
    if boundary.kind not in (BoundaryKind.OFFSETS, BoundaryKind.TIMESTAMPS):
        return
    missing = [str(tp) for tp in wanted if tp not in boundary.values]
    read = set(wanted)
    strange = [str(tp) for tp in boundary.values if tp not in read]
    if missing or strange:
        wrong = [f"lacks {', '.join(missing)}"] if missing else []
        wrong += [f"names {', '.join(strange)}, which is not read"] if strange else []
        raise ConfigError(
            f"option {boundary.option} {' and '.join(wrong)}; name every partition that is read, and only those"
        )


def _question(boundary: Boundary, tp: TopicPartition) -> int | None:
    match boundary.kind:
        case BoundaryKind.EARLIEST | BoundaryKind.GROUP:
            return EARLIEST_TIMESTAMP
        case BoundaryKind.LATEST:
            return LATEST_TIMESTAMP
        case BoundaryKind.TIMESTAMP:
            return boundary.timestamp_ms
        case BoundaryKind.TIMESTAMPS:
            return boundary.values[tp]
    offset = boundary.values[tp]
    return {EARLIEST_OFFSET: EARLIEST_TIMESTAMP, LATEST_OFFSET: LATEST_TIMESTAMP}.get(offset)
