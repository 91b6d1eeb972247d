"""Records that Kafka's clients produce are in the log as the topic wants them, and the answer says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.replication.leader.record_deletion import delete_below
from penstock.record.batch import HEADER_BYTES, PLACEMENT_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from storage.log_config import LogConfig
from tests.support.kafka_produce import Producing, run_story

VALUES = [b"a value %d" % (row % 5) for row in range(200)]


def stored(producing: Producing) -> bytes:
    return producing.at.partition.log.reader.read(0, 1 << 20).records


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_in_any_codec_is_stored_as_it_came(codec: Codec, tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        batch = build_batch(VALUES, timestamps_ms=1_700_000_000_000, codec=codec)
        part = await producing.send(batch)
        assert (part.error_code, part.base_offset, part.log_append_time_ms, part.log_start_offset) == (0, 0, -1, 0)
        assert stored(producing)[PLACEMENT_BYTES:] == batch[PLACEMENT_BYTES:]

    run_story(tmp_path, story)


def test_a_topic_with_a_codec_has_it_and_the_client_does_not_notice(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        assert (await producing.send(build_batch(VALUES, timestamps_ms=1, codec=Codec.GZIP))).error_code == 0
        assert read_header(stored(producing)).codec is Codec.ZSTD
        assert [record.value for record in read_records(stored(producing))] == VALUES

    run_story(tmp_path, story, LogConfig(compression_type="zstd"))


def test_the_time_of_the_append_is_in_the_answer_and_in_the_log(tmp_path: Path) -> None:
    async def story(producing: Producing) -> None:
        now_ms = producing.at.clock.wall_ms()
        part = await producing.send(build_batch([b"v"], timestamps_ms=7))
        assert (part.error_code, part.log_append_time_ms) == (0, now_ms)
        assert read_header(stored(producing)).max_timestamp_ms == now_ms

    run_story(tmp_path, story, LogConfig(message_timestamp_type="LogAppendTime"))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("said_ms", [-1, 0, 5])
@pytest.mark.parametrize("count", [3, 3_000])
def test_the_largest_time_is_that_of_the_records_whatever_the_header_says(
    said_ms: int, codec: Codec, count: int, tmp_path: Path
) -> None:
    """Old Sarama says -1, kafka-go the time of the last record; retention and look-ups go by it."""

    async def story(producing: Producing) -> None:
        right = build_batch([b"v" * 9] * count, timestamps_ms=[5, 9_000, *[5] * (count - 2)], codec=codec)
        wrong = pack_batch(read_header(right)._replace(max_timestamp_ms=said_ms), right[HEADER_BYTES:])
        assert (await producing.send(wrong)).error_code == 0
        assert stored(producing)[PLACEMENT_BYTES:] == right[PLACEMENT_BYTES:]

    run_story(tmp_path, story)


def test_the_log_start_is_in_the_answer_also_of_a_refusal(tmp_path: Path) -> None:
    """Clients decide by it whether a producer that is not known may begin anew (KIP-360)."""

    async def story(producing: Producing) -> None:
        await producing.send(build_batch(VALUES, timestamps_ms=1))
        delete_below(producing.at.partition, 150)
        forgotten = build_batch([b"v"], timestamps_ms=1, producer_id=7, producer_epoch=0, base_sequence=5)
        part = await producing.send(forgotten)
        assert (part.error_code, part.log_start_offset) == (59, 150)
        assert (await producing.send(build_batch([b"v"], timestamps_ms=1))).log_start_offset == 150

    run_story(tmp_path, story)
