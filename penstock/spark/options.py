"""Checks the options of a read: SourceOptions. The options of a write are in writing/sink_options.py.

The names are those of Spark's Kafka source, so that a job moves here by changing its format name. `kafka.` before a
client option is accepted and means the same client option in snake case. Spark passes names in lower case, so they are
compared in lower case; messages have them as documented. Every refusal names the option and the nearest right one. A
table has one set of options for both directions, so each direction accepts the other's. The result is frozen and made
of plain values: Spark pickles it to its workers. docs/spark.md has the table for users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from penstock.client.options.config import AdminConfig, ConsumerConfig
from penstock.client.options.options import parse_bootstrap
from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.spark.boundary import Boundary, BoundaryKind, parse_offsets, parse_timestamp, parse_timestamps
from penstock.spark.kafka_options import (
    BOOTSTRAP,
    PASSWORD,
    TOKEN,
    checked_for_reading,
    checked_group_id,
    client_options,
    flag,
    is_harmless,
    reasons,
    size_option,
)
from penstock.spark.plain_errors import PREFIX
from penstock.topic_names import INTERNAL_NAMES
from penstock.types import TopicPartition

BOOTSTRAP_NAMES = ("bootstrap", "bootstrap.servers", BOOTSTRAP)
COMMIT_TO_GROUP = "commitOffsetsToGroup"
TOPIC_NAMES = ("subscribe", "subscribePattern", "assign")
SOURCE_NAMES = (
    *BOOTSTRAP_NAMES,
    *TOPIC_NAMES,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "skipUndecodable",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    COMMIT_TO_GROUP,
)
TABLE_SINK_NAMES = ("topic", "includeHeaders", "semantics")
"""The options of a write that a table may have: those that are right for each of its writes."""
SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode", "serialization.format"})
"""Spark passes these to every source and sink; they are not checked here."""
STREAM_ONLY: tuple[str, ...] = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", COMMIT_TO_GROUP)
BATCH_ONLY: tuple[str, ...] = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")

LATEST = BoundaryKind.LATEST.value

ALL_NAMES = frozenset(name.lower() for name in (*SOURCE_NAMES, *TABLE_SINK_NAMES))

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that are read: one of a list of names, a pattern, or partitions by number."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def wants(self, topic: str) -> bool:
        """True if a topic of the cluster belongs to a pattern; none of the cluster's own does."""
        return topic not in INTERNAL_NAMES and re.fullmatch(self.pattern, topic) is not None

    def names(self, tp: TopicPartition) -> bool:
        """True if the partition would be read if it existed."""
        if self.pattern:
            return self.wants(tp.topic)
        return tp in self.partitions if self.partitions else tp.topic in self.topics

    def __str__(self) -> str:
        if self.pattern:
            return f"subscribePattern={self.pattern}"
        if self.partitions:
            return f"assign={', '.join(map(str, self.partitions))}"
        return f"subscribe={','.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """A checked set of options for reading."""

    bootstrap: str
    subscription: Subscription
    starting: Boundary
    ending: Boundary
    fail_on_data_loss: bool = True
    skip_undecodable: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    include_headers: bool = False
    min_partitions: int = 0
    max_records_per_partition: int = 0
    max_offsets_per_trigger: int = 0
    max_bytes_per_trigger: int = 0
    commit_to_group: str = ""
    client: dict[str, Any] = field(default_factory=dict, repr=False)
    """It may have a password or a token."""
    without_effect: tuple[str, ...] = ()


def source_options(options: Options, *, streaming: bool) -> SourceOptions:
    """The checked options of a read; ConfigError says what is wrong and what would be right."""
    given = lowered(options, "source", SOURCE_NAMES)
    group_id = checked_group_id(given)
    refused, why = STREAM_ONLY, "is for streams; bound a batch read with endingOffsets"
    if streaming:
        refused, why = BATCH_ONLY, "is for batch reads; a stream has no end"
    for name in refused:
        if name.lower() in given:
            raise ConfigError(f"option {name} {why}")
    starting = _starting(given, "latest" if streaming else "earliest", group_id)
    if (commits := flag(given, COMMIT_TO_GROUP, False)) and not group_id:
        raise ConfigError(f"option {COMMIT_TO_GROUP}=true needs kafka.group.id: the group that is told")
    uses_group = commits or starting.kind is BoundaryKind.GROUP
    return SourceOptions(
        bootstrap=bootstrap_of(given),
        subscription=_subscription(given),
        starting=starting,
        ending=_ending(given),
        fail_on_data_loss=flag(given, "failOnDataLoss", True),
        skip_undecodable=_skipped(given.get("skipundecodable", "{}")),
        include_headers=flag(given, "includeHeaders", False),
        min_partitions=_count(given, "minPartitions"),
        max_records_per_partition=_count(given, "maxRecordsPerPartition"),
        max_offsets_per_trigger=_count(given, "maxOffsetsPerTrigger"),
        max_bytes_per_trigger=size_option(given, "maxBytesPerTrigger"),
        commit_to_group=group_id if commits else "",
        client=checked_for_reading(client_options(given, ConsumerConfig, AdminConfig)),
        without_effect=reasons(given, uses_group=uses_group),
    )


def without_other_direction(options: Options, *, streaming: bool) -> dict[str, str]:
    """The options of a table that mean something for a read of this kind: the table serves both.

    A table that streams begin at its end has all of its rows for a batch read.
    """
    left_out = {name.lower() for name in (BATCH_ONLY if streaming else STREAM_ONLY)}
    if not streaming and options.get("startingoffsets", "").strip().lower() == LATEST:
        left_out.add("startingoffsets")
    return {name: value for name, value in options.items() if name not in left_out}


def check_table_options(options: Options) -> None:
    """ConfigError at CREATE TABLE for a name that no read and no write of the table would take.

    The catalog never stores a password or token: every user that sees the table's schema would see it.
    """
    for secret in (PASSWORD, TOKEN):
        if secret in {name.lower() for name in options}:
            word = secret.removeprefix(PREFIX)
            raise ConfigError(
                f"option {secret}: a table's options are seen by whoever sees the table; write {secret}.file, a file of"
                f" each worker, or set PENSTOCK_{word.upper()}_FILE there"
            )
    client_options(lowered(options, "table", (*SOURCE_NAMES, *TABLE_SINK_NAMES)), ConsumerConfig, AdminConfig)


def lowered(options: Options, role: str, names: tuple[str, ...]) -> dict[str, str]:
    """The options by their names in lower case; ConfigError for one that neither this direction nor a table has."""
    given = {key.lower(): value for key, value in options.items()}
    known = {name.lower(): name for name in names}
    for key, value in given.items():
        if key in known or key in ALL_NAMES or key in SPARKS_OWN or key.startswith(PREFIX) or is_harmless(key, value):
            continue
        if key == "path":
            raise ConfigError(
                "a path is not used here; name topics with the option " + ("subscribe" if role == "source" else "topic")
            )
        hint = did_you_mean(key, known)
        for low, name in known.items():
            hint = hint.replace(repr(low), repr(name))
        raise ConfigError(f"the penstock {role} has no option {key!r}{hint or '; it has ' + ', '.join(names)}")
    return given


def _only_one(given: Mapping[str, str], names: tuple[str, ...]) -> str:
    present = [name for name in names if name.lower() in given]
    if len(present) > 1:
        raise ConfigError(f"options {' and '.join(present)} contradict each other; give one of them")
    if not present:
        raise ConfigError(f"one of the options {', '.join(names)} is needed")
    return present[0]


def bootstrap_of(given: Mapping[str, str]) -> str:
    """The brokers."""
    text = given[_only_one(given, BOOTSTRAP_NAMES)]
    parse_bootstrap(text)
    return text


def _subscription(given: Mapping[str, str]) -> Subscription:
    if "topic" in given and not any(name.lower() in given for name in TOPIC_NAMES):
        return Subscription(topics=(given["topic"].strip(),))
    name = _only_one(given, TOPIC_NAMES)
    text = given[name.lower()]
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern={text!r} is not a regular expression: {error}") from None
        return Subscription(pattern=text)
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise ConfigError("option subscribe is empty; name at least one topic")
        return Subscription(topics=topics)
    return Subscription(partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        pairs = [(topic, partition) for topic, numbers in json.loads(text).items() for partition in numbers]
        partitions = tuple(TopicPartition(topic, int(partition)) for topic, partition in pairs)
    except (ValueError, AttributeError, TypeError):
        partitions = ()
    if not partitions or any(tp.partition < 0 for tp in partitions):
        raise ConfigError(f'option assign={text!r} must be JSON like {{"topic": [0, 1]}}')
    return tuple(sorted(set(partitions)))


def _skipped(text: str) -> dict[TopicPartition, frozenset[int]]:
    try:
        found = {
            TopicPartition(topic, int(partition)): frozenset(map(int, offsets))
            for topic, partitions in json.loads(text).items()
            for partition, offsets in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f'option skipUndecodable={text!r} must be JSON like {{"topic": {{"0": [42]}}}}') from None
    return found


def _starting(given: Mapping[str, str], default: str, group_id: str) -> Boundary:
    """Kafka's precedence: one time for all, then times by partition, then offsets."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(f"option startingOffsetsByTimestampStrategy={strategy!r} must be 'error' or 'latest'")
    if text := given.get("startingtimestamp"):
        return parse_timestamp("startingTimestamp", text, strategy == "latest")
    if text := given.get("startingoffsetsbytimestamp"):
        return parse_timestamps("startingOffsetsByTimestamp", text, strategy == "latest")
    boundary = parse_offsets("startingOffsets", given.get("startingoffsets", default), group_id)
    if boundary.kind is BoundaryKind.LATEST and default == "earliest":
        raise ConfigError("option startingOffsets=latest: a batch read from the end would read nothing")
    return boundary


def _ending(given: Mapping[str, str]) -> Boundary:
    if text := given.get("endingtimestamp"):
        return parse_timestamp("endingTimestamp", text, True)
    if text := given.get("endingoffsetsbytimestamp"):
        return parse_timestamps("endingOffsetsByTimestamp", text, True)
    boundary = parse_offsets("endingOffsets", given.get("endingoffsets", "latest"))
    if boundary.kind is BoundaryKind.EARLIEST or any(offset == -2 for offset in boundary.values.values()):
        raise ConfigError("option endingOffsets: 'earliest' (-2) cannot be where a read ends")
    return boundary


def _count(given: Mapping[str, str], name: str) -> int:
    if (text := given.get(name.lower())) is None:
        return 0
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"option {name}={text!r} must be a whole number of at least 1")
    return int(text)


def includes_headers(options: Options) -> bool:
    """True if the schema has headers; asked before it is known whether Spark reads or writes."""
    return flag({key.lower(): value for key, value in options.items()}, "includeHeaders", False)
