"""Checks what people pass to the methods of a client: topics, partitions, numbers.

A wrong type is a TypeError and a wrong value a ValueError, as everywhere in Python; each names the argument, and says
what to write instead. Unchecked, it would surface as an error of some inner call, or go to the broker. Not here: the
options of a client (options.py), and what users of other clients write by habit (foreign_words.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from penstock.errors import InvalidTopicError
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TopicPartition

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
OFFSET_SPECS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "max-timestamp": MAX_TIMESTAMP}


def checked_topic(topic: Any) -> str:
    """The name of one topic; InvalidTopicError where it is empty."""
    if not isinstance(topic, str):
        remedy = "; call once for each topic" if isinstance(topic, (list, tuple, set)) else ""
        raise TypeError(f"topic must be a str, not {type(topic).__name__}{remedy}")
    if not topic:
        raise InvalidTopicError("the topic name is empty")
    return topic


def checked_topic_names(topics: Any) -> tuple[str, ...]:
    """The names of topics, each once; not one name alone."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"topics must be a list of names, like ['orders'], not {topics!r}")
    return tuple(dict.fromkeys(map(checked_topic, topics)))


def checked_partition(partition: Any) -> TopicPartition:
    """One partition of one topic: a TopicPartition, or a pair that means one."""
    if not isinstance(partition, (tuple, list)) or len(partition) != 2:
        topic = partition if isinstance(partition, str) else "orders"
        raise TypeError(f"a partition is TopicPartition({topic!r}, 0), a topic and a number, not {partition!r}")
    topic, number = partition
    checked_topic(topic)
    if not is_whole_number(number):
        remedy = f"; write TopicPartition({topic!r}, {int(number)})" if str(number).isdecimal() else ""
        raise TypeError(
            f"TopicPartition({topic!r}, {number!r}): the partition must be an int, not {type(number).__name__}{remedy}"
        )
    return TopicPartition(topic, int(number))


def checked_partitions(partitions: Any) -> list[TopicPartition]:
    """Partitions, each once; not the name of a topic, and not one partition alone."""
    if isinstance(partitions, (str, TopicPartition)) or not isinstance(partitions, Iterable):
        raise _not_partitions(partitions)
    found = []
    for partition in partitions:
        if not isinstance(partition, (tuple, list)) or len(partition) != 2:
            raise _not_partitions(partition)
        found.append(checked_partition(partition))
    return list(dict.fromkeys(found))


def _not_partitions(given: object) -> TypeError:
    topic = given if isinstance(given, str) else "orders"
    return TypeError(
        f"give a list of TopicPartition(topic, partition), not {given!r}; every partition of a topic is"
        f" partitions_for({topic!r})"
    )


def checked_number(name: str, number: Any, low: int, high: int = MAX_INT64) -> int:
    """A whole number from `low` to `high`."""
    if not is_whole_number(number):
        remedy = f"; write {name}={int(number)}" if str(number).isdecimal() else ""
        raise TypeError(f"{name}={number!r} must be an int, not {type(number).__name__}{remedy}")
    if not low <= number <= high:
        raise ValueError(f"{name}={number} must be from {low} to {high}")
    return int(number)


def checked_assignments(assignments: Any) -> tuple[tuple[int, ...], ...]:
    """The brokers of each partition; None means that the cluster chooses them."""
    if assignments is None:
        return ()
    if not _is_list(assignments) or not all(map(_is_list, assignments)):
        raise TypeError(
            f"assignments must be a list with the brokers of each partition, like [[1, 2], [2, 3]], not {assignments!r}"
        )
    if not assignments:
        raise ValueError("assignments=[] names no partition; leave it out, and the cluster places the partitions")
    return tuple(
        tuple(checked_number("a broker's id", broker, 0, MAX_INT32) for broker in brokers) for brokers in assignments
    )


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes))


def is_whole_number(number: Any) -> bool:
    """An int, or a whole number of NumPy or pandas; not a bool."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def checked_replicas(replicas: Any) -> tuple[int, ...] | None:
    """The ids of brokers, in order; None stays None."""
    if replicas is None:
        return None
    if isinstance(replicas, (str, bytes)) or not isinstance(replicas, Iterable):
        raise TypeError(f"the replicas of a partition are ids of brokers, such as [1, 2, 3], not {replicas!r}")
    return tuple(checked_number("replica", replica, 0, MAX_INT32) for replica in replicas)


def checked_mapping(name: str, given: Any, example: str) -> Mapping[Any, Any]:
    """A dict; None means an empty one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict, like {example}, not {type(given).__name__}")
    return given


def checked_offset_specs(partitions: Any) -> dict[TopicPartition, int]:
    """The timestamp or sentinel at which the offset of each partition is wanted; a plain sequence means 'latest'."""
    if not isinstance(partitions, Mapping):
        partitions = dict.fromkeys(checked_partitions(partitions), "latest")
    return {checked_partition(tp): _offset_spec(spec) for tp, spec in partitions.items()}


def _offset_spec(spec: Any) -> int:
    if not isinstance(spec, str):
        return checked_number("time_ms", spec, min(OFFSET_SPECS.values()))
    if spec not in OFFSET_SPECS:
        raise ValueError(
            f"offset spec {spec!r} must be 'earliest', 'latest', 'max-timestamp' or a time in ms since 1970"
        )
    return OFFSET_SPECS[spec]


def checked_words(name: str, given: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Words of a list, in their own letters; any letters are understood, as Kafka's tools do."""
    if isinstance(given, str):
        raise TypeError(f"{name} must be a list, like [{str(known[0])!r}], not {given!r}")
    by_letters = {word.lower(): str(word) for word in known}
    for word in given:
        if str(word).lower() not in by_letters:
            raise ValueError(f"{name}: {word!r} is none of {', '.join(map(str, known))}")
    return tuple(dict.fromkeys(by_letters[str(word).lower()] for word in given))
