"""Kafka's own DumpLogSegments reads the records of `__consumer_offsets` that we write, each type and many values.

Skipped, with the reason, where Java or Kafka's jars cannot be had. That we read what Kafka wrote is a unit test
(`tests/unit/broker/groups/records/test_record_log_of_kafka.py`).
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.coordination.record_log import TxnProducer
from broker.coordination.watched_time import WATCHED_KEY_TYPE, WatchedTimeKey, WatchedTimeValue
from broker.groups.records.classic_records import GroupMetadataValue
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import RECORD_TYPES, encode_group_record
from penstock.record.markers import Marker, build_marker
from penstock.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    encode_consumer_protocol,
)
from tests.interop.matrix.clients import java_jars
from tests.interop.matrix.installs import MissingError
from tests.support.group_log import batch_of, in_a_log, written_batches
from tests.support.kafka_json import json_record
from tests.support.kafka_messages import drawn

OF_EACH_TYPE = 12
NAMES = ("t", "topic.of-a_long name ä", "")
BATCH_BYTES = 20_000
PRINTED_LINE = re.compile(r"\| offset: \d+ .*? key: (\{.*?\}\}) payload: (.*)")


def drawn_record(kind: Any, random: Random) -> tuple[Any, Any]:
    """A classic group's members are consumers, or the tool does not read their bytes."""
    key, value = drawn(kind.key, 0, random), drawn(kind.value, kind.version(kind.value()), random)
    if isinstance(value, GroupMetadataValue):
        value.protocol_type = "consumer"
        for member in value.members:
            rows = [
                ConsumerProtocolTopicPartitions(name, random.sample(range(300), random.randrange(4)))
                for name in random.sample(NAMES, random.randrange(3))
            ]
            data, rack = random.choice((None, b"", b"data")), random.choice((None, *NAMES))
            subscription = ConsumerProtocolSubscription(list(NAMES), data, rows, random.randrange(-1, 9), rack)
            member.subscription = encode_consumer_protocol(subscription)
            member.assignment = encode_consumer_protocol(ConsumerProtocolAssignment(rows, data))
    return key, value


def test_kafkas_tool_reads_every_type_as_we_mean_it(tmp_path: Path) -> None:
    try:
        java, jars, _ = java_jars()
    except MissingError as error:
        pytest.skip(str(error))
    random = Random(33)
    kinds = [kind for kind in RECORD_TYPES if kind.number != WATCHED_KEY_TYPE]
    records = [drawn_record(kind, random) for kind in kinds for _ in range(OF_EACH_TYPE)]
    records += [(key, None) for key, _ in records[::OF_EACH_TYPE]]
    records.append((OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=1, expire_timestamp=5)))
    pending = OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=7)
    producer, end = TxnProducer(7, 3), Marker(7, 4, True, 2)
    appends = written_batches(records, BATCH_BYTES)
    appends += [batch_of(*encode_group_record(*pending), producer), build_marker(end, 1)]
    records.append(pending)
    appends += written_batches([(WatchedTimeKey(), WatchedTimeValue(watched_ms=1))], BATCH_BYTES)  # it passes over this
    written = b"".join(in_a_log(appends))
    segment = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    segment.write_bytes(written)

    tool = [java, "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*tool, "--offsets-decoder", "--files", str(segment)], capture_output=True, timeout=120, check=True
    )

    printed = [match.groups() for match in PRINTED_LINE.finditer(done.stdout.decode())]
    found = [[json.loads(key), None if value == "<DELETE>" else json.loads(value)] for key, value in printed]
    assert found == [json_record(*record) for record in records]
    assert b"producerId: 7 producerEpoch: 3 partitionLeaderEpoch: -1 isTransactional: true" in done.stdout
    assert b"endTxnMarker: COMMIT coordinatorEpoch: 2" in done.stdout
