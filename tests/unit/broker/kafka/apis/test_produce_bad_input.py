"""Bad input by Produce in Kafka's protocol: an exact error in Kafka's terms, and nothing of it in the log.

Each row goes through the plan and the node's own API to a real log, and back over the wire.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import cramjam
import pytest

from broker.kafka.plan import ConnectionEnds
from broker.replication.hosting.assignment import TopicSettings
from penstock.errors import ResourceExhaustedError
from penstock.record.batch import HEADER_BYTES, MAGIC_AT, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint
from storage.log_config import LogConfig
from tests.support.kafka_plans import OTHER, parts_of
from tests.support.kafka_produce import BOTH, Producing, run_story
from tests.support.partitions import PARTITION, TOPIC_ID, state
from tests.support.upkeep_stage import ME

HINT: Final = LeaderHint(
    OTHER, 6, Endpoint("internal", 9192), TOPIC_ID, (ListenerEndpoint("KAFKA", Endpoint("kafka2", 9092)),)
)


def plain(*values: bytes, time_ms: int = 1_700_000_000_000, **fields: Any) -> bytes:
    return build_batch(values or (b"v",), timestamps_ms=time_ms, **fields)


def changed(source: bytes = plain(), body: bytes | None = None, **fields: int) -> bytes:
    """The batch with other fields, or another body, and a right checksum."""
    return pack_batch(read_header(source)._replace(**fields), source[HEADER_BYTES:] if body is None else body)


def numbered(sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    return plain(*[b"v"] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


@dataclass(frozen=True)
class Row:
    """Records that a client sends, and what it is told."""

    records: bytes | None
    code: int
    says: str
    config: LogConfig | None = None


SMALL_BATCHES = LogConfig(max_message_bytes=1_000)
SMALL_SEGMENTS = LogConfig(segment_bytes=2_000)
COMPACTED = LogConfig(cleanup_policy="compact")
IN_TIME = LogConfig(message_timestamp_before_max_ms=3_600_000, message_timestamp_after_max_ms=3_600_000)
YEAR_3000_MS = 32_503_680_000_000

CUT = compress(Codec.GZIP, plain(b"v" * 500)[HEADER_BYTES:])[:-4] + bytes(4)
_LZ4 = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=True)
_LZ4.compress(plain(b"v" * 500)[HEADER_BYTES:])
LINKED = bytes(_LZ4.finish())
LZ4 = compress(Codec.LZ4, plain()[HEADER_BYTES:])
SNAPPY = compress(Codec.SNAPPY, plain()[HEADER_BYTES:])
VERSION_0 = SNAPPY[:8] + bytes(4) + SNAPPY[12:]
SKIPPED = bytes.fromhex("502a4d18 01000000 00")

ROWS = {
    "a batch too large": Row(plain(b"x" * 2_000), 10, "max.message.bytes = 1000", SMALL_BATCHES),
    "a batch larger than a segment": Row(plain(b"x" * 3_000), 18, "segment.bytes = 2000", SMALL_SEGMENTS),
    "a bad checksum": Row(plain()[:-1] + b"?", 2, "checksum"),
    "message format 1": Row(plain()[:MAGIC_AT] + b"\1" + plain()[MAGIC_AT + 1 :], 87, "format is 1"),
    "an unknown magic": Row(plain()[:MAGIC_AT] + b"\7" + plain()[MAGIC_AT + 1 :], 2, "magic is 7"),
    "fewer bytes than announced": Row(plain(b"value")[:-2], 87, "one whole batch"),
    "bytes behind the batch": Row(plain() + b"rest", 87, "one whole batch"),
    "two batches": Row(plain() + plain(), 87, "one whole batch"),
    "null": Row(None, 87, "no record batch"),
    "no bytes": Row(b"", 87, "no record batch"),
    "a batch without records": Row(changed(record_count=0, last_offset_delta=0), 87, "0 records"),
    "a count that is not the last delta": Row(changed(last_offset_delta=5), 87, "record"),
    "more records than room": Row(changed(record_count=2**31 - 1, last_offset_delta=2**31 - 2), 87, "record"),
    "negative counts": Row(changed(record_count=-1, last_offset_delta=-1), 2, "-1 records"),
    "a control batch": Row(changed(attributes=0x20), 87, "control batch"),
    "a transaction": Row(changed(attributes=0x10), 53, "transaction"),
    "unknown attributes": Row(changed(attributes=0x4000), 87, "some bits are not known"),
    "an unknown codec": Row(changed(attributes=6), 76, "codec"),
    "a broken stream": Row(changed(attributes=Codec.GZIP), 2, "gzip"),
    "a record more than announced": Row(changed(plain(b"v", b"w"), record_count=1, last_offset_delta=0), 87, "behind"),
    "a record less than announced": Row(changed(plain(b"v" * 9), record_count=2, last_offset_delta=1), 87, "record 1"),
    "bytes behind the last record": Row(changed(body=plain()[HEADER_BYTES:] + b"zz"), 87, "2 bytes behind the last"),
    "a header without a key": Row(changed(body=b"\x14\0\0\0\x01\x02v\x02\x01\x02v"), 87, "record 0"),
    "a wrong offset delta": Row(changed(body=b"\x0e\0\0\x0a\x01\x02v\0"), 87, "offset delta 5"),
    "a stream that is cut off": Row(changed(plain(codec=Codec.GZIP), CUT, attributes=Codec.GZIP), 87, "unpacked"),
    "lz4 with linked blocks": Row(changed(body=LINKED, attributes=Codec.LZ4), 87, "KIP-57"),
    "two lz4 frames": Row(
        changed(
            body=compress(Codec.LZ4, plain()[HEADER_BYTES:][:3]) + compress(Codec.LZ4, plain()[HEADER_BYTES:][3:]),
            attributes=Codec.LZ4,
        ),
        87,
        "behind its first lz4 frame",
    ),
    "a frame to skip before lz4": Row(changed(body=SKIPPED + LZ4, attributes=Codec.LZ4), 87, "a frame to skip"),
    "xerial's snappy of version 0": Row(changed(body=VERSION_0, attributes=Codec.SNAPPY), 87, "xerial's version 0"),
    "a header of version 0 behind xerial's snappy": Row(
        changed(body=SNAPPY + VERSION_0[:16], attributes=Codec.SNAPPY), 87, "xerial's version 0"
    ),
    "half a header behind xerial's snappy": Row(
        changed(body=SNAPPY + VERSION_0[:10], attributes=Codec.SNAPPY), 87, "cut off in a header"
    ),
    "a time beyond 64 bits": Row(
        changed(body=b"\x20\0\xfe" + b"\xff" * 8 + b"\x01\0\x01\x02v\0"), 87, "exceeds 64 bits"
    ),
    "a record of a packed batch": Row(
        changed(body=compress(Codec.ZSTD, plain()[HEADER_BYTES:] + b"zz"), attributes=Codec.ZSTD), 87, "2 bytes behind"
    ),
    "a bomb": Row(
        changed(attributes=Codec.SNAPPY, body=b"\x80\x80\x80\xc2\x03" + b"x" * 9), 10, "unpacks to 943718400 bytes"
    ),
    "a negative timestamp": Row(plain(time_ms=-7), 32, "timestamp"),
    "a timestamp far off": Row(plain(time_ms=YEAR_3000_MS), 32, "timestamp", IN_TIME),
    "no key for a compacted topic": Row(plain(b"v", b"w"), 87, "has no key", COMPACTED),
    "half a producer": Row(changed(producer_id=7), 87, "none of them may be negative"),
    "a producer that is not known here": Row(numbered(5), 59, "not known here"),
}


@pytest.mark.parametrize("name", ROWS)
def test_bad_records_get_an_exact_error_and_are_not_in_the_log(name: str, tmp_path: Path) -> None:
    row = ROWS[name]

    async def story(producing: Producing) -> None:
        for acks in (1, -1):
            part = await producing.send(row.records, acks)
            assert part.error_code == row.code, part.error_message
            assert row.says in part.error_message
            assert (part.base_offset, part.log_append_time_ms) == (-1, -1)
        with pytest.raises(ConnectionEnds, match="acks=0"):
            await producing.send(row.records, 0)
        assert producing.end == 0
        keyed = build_batch([b"v"], keys=[b"k"], timestamps_ms=producing.at.clock.wall_ms())
        assert (await producing.send(keyed)).base_offset == 0, "the partition is as well as before"

    run_story(tmp_path, story, row.config)


def test_the_records_with_bad_times_or_without_a_key_are_named(tmp_path: Path) -> None:
    async def times(producing: Producing) -> None:
        now_ms = producing.at.clock.wall_ms()
        late = build_batch([b"a", b"b", b"c"], timestamps_ms=[now_ms, YEAR_3000_MS, now_ms])
        assert [one.batch_index for one in (await producing.send(late)).record_errors] == [1]

    async def keys(producing: Producing) -> None:
        mixed = build_batch([b"a", b"b", b"c"], keys=[b"k", None, b"k"], timestamps_ms=1)
        found = (await producing.send(mixed)).record_errors
        assert [(one.batch_index, "no key" in one.batch_index_error_message) for one in found] == [(1, True)]

    run_story(tmp_path / "times", times, IN_TIME)
    run_story(tmp_path / "keys", keys, COMPACTED)


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_other_acks_are_refused(acks: int, tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        part = await producing.send(plain(), acks)
        assert part.error_code == 21 and producing.end == 0

    run_story(tmp_path, story)


def test_too_few_in_sync_before_the_append_and_after_it(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        producing.lead((ME,), 2)
        assert (await producing.send(plain())).error_code == 19 and producing.end == 0
        producing.lead(BOTH, 2, 3)
        sending = asyncio.ensure_future(producing.send(plain()))
        await asyncio.sleep(0)
        assert producing.end == 1
        producing.lead((ME,), 2, 4)
        assert (await sending).error_code == 20 and producing.end == 1

    run_story(tmp_path, story)


def test_a_follower_names_the_leader(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        replicas = producing.at.replicas
        replicas.apply(PARTITION, TOPIC_ID, state(OTHER, 6, 2, BOTH, BOTH), TopicSettings(LogConfig(), 1), HINT)
        part = await producing.send(plain())
        assert part.error_code == 6
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (OTHER, 6)

    run_story(tmp_path, story)


@pytest.mark.parametrize("version", [3, 12])
def test_unknown_partitions(version: int, tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        assert (await producing.send(plain(), version=version, partition=7)).error_code == 3
        producing.parts.metadata = parts_of().image()  # the topic was deleted
        assert (await producing.send(plain(), version=version)).error_code == 3

    run_story(tmp_path, story)


def test_sequences_of_an_idempotent_producer(tmp_path: Path) -> None:
    async def outcome(producing: Producing, records: bytes) -> tuple[int, int]:
        part = await producing.send(records)
        return part.error_code, part.base_offset

    async def story(producing: Producing) -> None:
        assert await outcome(producing, numbered(0, count=2)) == (0, 0)
        assert await outcome(producing, numbered(0, count=2)) == (0, 0), "a duplicate has its first offset"
        assert await outcome(producing, numbered(3)) == (45, -1), "a gap"
        assert await outcome(producing, numbered(0)) == (45, -1), "neither a duplicate nor the next"
        assert await outcome(producing, numbered(1, epoch=1)) == (45, -1), "an epoch begins with 0"
        assert await outcome(producing, numbered(0, epoch=1)) == (0, 2)
        assert await outcome(producing, numbered(2)) == (47, -1), "its epoch is over"
        assert producing.end == 3

    run_story(tmp_path, story)


def test_sequences_begin_anew_after_the_largest(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        log = producing.at.partition.log
        await producing.send(numbered(0))
        log.producers.known.take(read_header(numbered(2**31 - 2))._replace(base_offset=0), 0)
        assert (await producing.send(numbered(2**31 - 1))).error_code == 0
        assert (await producing.send(numbered(0))).base_offset == 2

    run_story(tmp_path, story)


def test_a_time_out_leaves_the_outcome_open_and_a_repetition_makes_no_duplicate(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        producing.lead(BOTH, 2)
        part = await producing.send(numbered(0), timeout_ms=1)
        assert part.error_code == 7 and producing.end == 1
        producing.lead((ME,), 1, 3)
        part = await producing.send(numbered(0))
        assert (part.error_code, part.base_offset, producing.end) == (0, 0, 1)

    run_story(tmp_path, story)


def test_ten_thousand_headers_are_taken(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        headers = [[(f"name-{index}", b"value") for index in range(10_000)]]
        records = build_batch([b"v"], timestamps_ms=1, headers=headers)
        assert (await producing.send(records)).error_code == 0

    run_story(tmp_path, story)


def test_a_node_at_a_limit_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any) -> Any:
        raise ResourceExhaustedError("too many producers")

    async def story(producing: Producing) -> None:
        monkeypatch.setattr(producing.at.partition.log, "append", SimpleNamespace(as_leader=full))
        part = await producing.send(plain())
        assert (part.error_code, part.error_message) == (7, "too many producers")

    run_story(tmp_path, story)
