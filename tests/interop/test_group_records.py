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

from broker.groups.records.classic_records import GroupMetadataValue
from broker.groups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_consumer_protocol,
)
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import RECORD_TYPES
from penstock.record.reader import read_records
from tests.interop.matrix.clients import MissingError, java_jars
from tests.support.group_log import written_batches
from tests.support.kafka_json import told_record
from tests.support.kafka_messages import drawn

OF_EACH_TYPE = 12
BATCH_BYTES = 20_000
TOLD = re.compile(r"\| offset: \d+ .*? key: (\{.*?\}\}) payload: (.*)")


def drawn_record(kind: Any, random: Random) -> tuple[Any, Any]:
    """A classic group's members are consumers, or the tool does not read their bytes."""
    key, value = drawn(kind.key, 0, random), drawn(kind.value, kind.version(kind.value()), random)
    if isinstance(value, GroupMetadataValue):
        value.protocol_type = "consumer"
        for member in value.members:
            subscription = drawn(ConsumerProtocolSubscription, 3, random)
            member.subscription = encode_consumer_protocol(subscription)
            member.assignment = encode_consumer_protocol(drawn(ConsumerProtocolAssignment, 3, random))
    return key, value


def test_kafkas_tool_reads_every_type_as_we_mean_it(tmp_path: Path) -> None:
    try:
        java, jars, _ = java_jars()
    except MissingError as error:
        pytest.skip(str(error))
    random = Random(33)
    records = [drawn_record(kind, random) for kind in RECORD_TYPES for _ in range(OF_EACH_TYPE)]
    records += [(key, None) for key, _ in records[::OF_EACH_TYPE]]
    records.append((OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=1, expire_timestamp=5)))
    written = bytearray()
    offset = 0
    for batch in written_batches(records, BATCH_BYTES):
        written += offset.to_bytes(8, "big") + batch[8:]
        offset += len(read_records(batch))
    segment = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    segment.write_bytes(written)

    tool = [java, "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*tool, "--offsets-decoder", "--files", str(segment)], capture_output=True, timeout=120, check=True
    )

    told = [match.groups() for match in TOLD.finditer(done.stdout.decode())]
    found = [[json.loads(key), None if value == "<DELETE>" else json.loads(value)] for key, value in told]
    assert found == [told_record(*record) for record in records]
