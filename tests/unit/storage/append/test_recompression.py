"""compression.type of a topic: what is converted, what stays as it is, and what a hostile batch gets."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from penstock.errors import (
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    PenstockError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
)
from penstock.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    BatchHeader,
    iter_headers,
    pack_batch,
    read_header,
    verify_crc,
)
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress
from penstock.record.reader import read_records
from storage.append.batch_validation import whole_batches
from storage.append.header_check import MAX_UNPACKED_BYTES
from storage.append.recompression import SLOW_BYTES_MAX, SLOW_LEVEL, in_topic_codec, is_due, level_for
from storage.append.recompression import prepared as prepared_whole
from storage.disk.file_system import Bytes
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import new_log

NOW_MS = 1_700_000_000_000
TARGETS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
VALUES = [b"a value that comes again, number %d" % (row % 7) for row in range(300)]


def topic(compression_type: str, **more: int) -> LogConfig:
    """Bodies are bytes here: no record is looked at."""
    return LogConfig(compression_type=compression_type, record_validation="headers", **more)  # type: ignore[arg-type]


def produced(codec: Codec, **options: object) -> bytes:
    return build_batch(VALUES, keys=VALUES, timestamps_ms=NOW_MS, codec=codec, **options)  # type: ignore[arg-type]


def prepared(records: bytes, config: LogConfig, now_ms: int, *budget: int) -> Bytes:
    return prepared_whole(records, config, now_ms, *budget).records


def with_body(body: bytes, codec: int, count: int = 1) -> bytes:
    """A batch with a right checksum and any body."""
    return pack_batch(BatchHeader(0, 0, -1, 2, 0, codec, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count), body)


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", TARGETS)
def test_records_and_every_field_but_the_codec_stay_the_same(source: Codec, target: str) -> None:
    before = produced(
        source, is_transactional=True, producer_id=9, producer_epoch=2, base_sequence=40, is_log_append_time=True
    )

    after = bytes(in_topic_codec(before, list(whole_batches(before)), topic(target)).records)

    old, new = read_header(before), read_header(after)
    assert new.codec == TARGETS[target]
    assert new._replace(batch_length=0, crc=0, attributes=0) == old._replace(batch_length=0, crc=0, attributes=0)
    assert new.attributes & ~CODEC_MASK == old.attributes & ~CODEC_MASK
    assert new.size_bytes == len(after) and verify_crc(after, 0, new)
    assert read_records(after) == read_records(before)


@pytest.mark.parametrize("source", Codec)
def test_with_producer_nothing_is_touched(source: Codec) -> None:
    records = produced(source)
    batches = list(whole_batches(records))

    assert prepared(records, topic("producer"), NOW_MS) is records
    found = in_topic_codec(records, batches, topic("producer"))
    assert found[0] is records and found[1] is batches


@pytest.mark.parametrize("target", TARGETS)
def test_batches_that_have_the_codec_pass_as_the_same_object(target: str) -> None:
    records = produced(TARGETS[target]) + produced(TARGETS[target])

    assert prepared(records, topic(target), NOW_MS) is records


def test_a_batch_that_has_the_codec_is_never_unpacked() -> None:
    bomb = with_body(compress(Codec.ZSTD, bytes(1000))[:8] + b"no zstd from here on", Codec.ZSTD)

    assert prepared(bomb, topic("zstd"), NOW_MS) is bomb


def test_of_several_batches_only_the_others_are_converted() -> None:
    gzip, zstd = produced(Codec.GZIP), produced(Codec.ZSTD)
    records = gzip + zstd + gzip

    after, batches, unpacked_bytes = in_topic_codec(records, list(whole_batches(records)), topic("zstd"))

    assert [header.codec for _, header in batches] == [Codec.ZSTD] * 3
    assert batches == list(iter_headers(after))
    assert unpacked_bytes == 2 * (len(produced(Codec.NONE)) - HEADER_BYTES)
    middle = batches[1][0]
    assert bytes(after[middle : middle + len(zstd)]) == zstd
    assert [r.value for r in read_records(after)] == VALUES * 3


@pytest.mark.parametrize(("target", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -7, 19)])
def test_the_topics_level_is_used(target: str, low: int, high: int) -> None:
    source = produced(Codec.NONE)

    fast = prepared(source, topic(target, **{f"compression_{target}_level": low}), NOW_MS)
    small = prepared(source, topic(target, **{f"compression_{target}_level": high}), NOW_MS)

    assert len(small) < len(fast)
    assert read_records(small) == read_records(fast) == read_records(source)


def test_a_batch_above_1_mib_is_packed_at_no_slow_level_of_zstd() -> None:
    """The largest one of all would take minutes of a thread, and many times its bytes of memory."""
    slow = topic("zstd", compression_zstd_level=22, max_message_bytes=4 * SLOW_BYTES_MAX)
    for size, level in ((SLOW_BYTES_MAX - 100, 22), (SLOW_BYTES_MAX + 1, SLOW_LEVEL)):
        source = build_batch([b"a value that comes again " * (size // 25 + 1)], timestamps_ms=NOW_MS)
        packed = prepared(source, slow, NOW_MS)
        assert bytes(packed[HEADER_BYTES:]) == compress(Codec.ZSTD, source[HEADER_BYTES:], level)
        assert read_records(packed) == read_records(source)
    assert compress(Codec.ZSTD, source[HEADER_BYTES:], 22) != compress(Codec.ZSTD, source[HEADER_BYTES:], SLOW_LEVEL)


@pytest.mark.parametrize("target", ["gzip", "lz4"])
def test_other_codecs_have_their_level_for_batches_of_all_sizes(target: str) -> None:
    assert level_for(TARGETS[target], 9, MAX_UNPACKED_BYTES) == 9


def test_only_what_is_in_another_codec_is_due() -> None:
    gzip, zstd = produced(Codec.GZIP), produced(Codec.ZSTD)

    assert is_due(gzip, topic("zstd")) and is_due(zstd + gzip, topic("zstd")) and is_due(zstd, topic("uncompressed"))
    assert not is_due(zstd + zstd, topic("zstd")) and not is_due(gzip, topic("producer"))
    for wrong in (b"", b"garbage" * 30, with_body(b"", 6)):
        assert not is_due(wrong, topic("zstd")), "the append says what is wrong with it"


def test_damage_is_found_before_a_new_checksum_would_hide_it() -> None:
    damaged = bytearray(produced(Codec.NONE))
    damaged[-5] ^= 1

    with pytest.raises(CorruptMessageError, match="checksum"):
        prepared(bytes(damaged), topic("zstd"), NOW_MS)


def test_a_control_batch_and_a_wrong_count_stay_refused() -> None:
    header = read_header(produced(Codec.GZIP))
    body = produced(Codec.GZIP)[HEADER_BYTES:]
    for wrong in (header._replace(attributes=header.attributes | CONTROL_BIT), header._replace(record_count=7)):
        with pytest.raises(InvalidRecordError):
            prepared(pack_batch(wrong, body), topic("zstd"), NOW_MS)


BROKEN: dict[str, tuple[bytes, type[PenstockError]]] = {
    "broken gzip": (with_body(b"no gzip", Codec.GZIP), CorruptMessageError),
    "broken snappy": (with_body(b"\xff\xff\xff\xff\xff", Codec.SNAPPY), CorruptMessageError),
    "broken lz4": (with_body(b"no lz4", Codec.LZ4), CorruptMessageError),
    "broken zstd": (with_body(b"no zstd", Codec.ZSTD), CorruptMessageError),
    "cut gzip": (with_body(compress(Codec.GZIP, bytes(1000))[:-9], Codec.GZIP), CorruptMessageError),
    "unknown codec": (with_body(b"", 5), UnsupportedCompressionTypeError),
    "empty gzip": (with_body(b"", Codec.GZIP), CorruptMessageError),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_or_an_unknown_codec_is_its_own_error(name: str) -> None:
    batch, error = BROKEN[name]
    for target in ("uncompressed", "lz4" if "snappy" in name else "snappy"):
        with pytest.raises(error):
            prepared(batch, topic(target), NOW_MS)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_without_the_memory_it_asks_for(codec: Codec) -> None:
    bomb = with_body(compress(codec, bytes(16 << 20)), codec)
    config = topic("uncompressed", max_message_bytes=max(len(bomb), 100_000))

    tracemalloc.start()
    with pytest.raises(MessageTooLargeError, match=r"compression\.type=uncompressed"):
        prepared(bomb, config, NOW_MS)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 3 * config.max_message_bytes + (1 << 17)


def test_many_small_bombs_share_one_budget() -> None:
    bomb = with_body(compress(Codec.GZIP, bytes(900_000)), Codec.GZIP)
    config = topic("lz4")

    assert len(prepared(bomb * 3, config, NOW_MS, 3 * 900_000)) < 20_000
    with pytest.raises(MessageTooLargeError, match="unpacks to"):
        prepared(bomb * 4, config, NOW_MS, 3 * 900_000)
    assert MAX_UNPACKED_BYTES == 64 << 20


def test_max_message_bytes_holds_for_the_batch_as_it_comes() -> None:
    records = produced(Codec.NONE)

    with pytest.raises(MessageTooLargeError, match=f"a batch of {len(records)} bytes is larger"):
        prepared(records, topic("zstd", max_message_bytes=len(records) - 1), NOW_MS)


def test_max_message_bytes_holds_for_the_batch_as_it_is_stored() -> None:
    gzip, plain = produced(Codec.GZIP), produced(Codec.NONE)
    exact = topic("uncompressed", max_message_bytes=len(plain))

    assert len(prepared(gzip, exact, NOW_MS)) == len(plain)
    with pytest.raises(MessageTooLargeError):
        prepared(gzip, replace(exact, max_message_bytes=len(plain) - 1), NOW_MS)

    zstd, snappy = produced(Codec.ZSTD), prepared(produced(Codec.ZSTD), topic("snappy"), NOW_MS)
    assert len(zstd) < len(snappy)
    with pytest.raises(MessageTooLargeError, match=f"a batch of {len(snappy)} bytes, with compression.type=snappy"):
        prepared(zstd, topic("snappy", max_message_bytes=len(snappy) - 1), NOW_MS)


def test_what_is_stored_must_fit_a_segment() -> None:
    gzip, plain = produced(Codec.GZIP), produced(Codec.NONE)

    with pytest.raises(RecordListTooLargeError, match=f"{2 * len(plain)} bytes, with compression.type=uncompressed"):
        prepared(gzip * 2, topic("uncompressed", segment_bytes=2 * len(plain) - 1), NOW_MS)


def test_a_log_stores_what_is_produced_in_its_topics_codec_at_its_own_offsets() -> None:
    log = new_log(LosingFileSystem(), replace(topic("zstd"), message_timestamp_type="LogAppendTime"))

    log.append.as_leader(produced(Codec.LZ4), 3, NOW_MS)
    log.update_config(topic("uncompressed"))
    info = log.append.as_leader(produced(Codec.GZIP) + produced(Codec.NONE), 3, NOW_MS)

    stored = log.reader.read(0, 1 << 20).records
    headers = [header for _, header in iter_headers(stored)]
    assert [(h.codec, h.base_offset, h.leader_epoch, h.is_log_append_time) for h in headers] == [
        (Codec.ZSTD, 0, 3, True),
        (Codec.NONE, 300, 3, False),
        (Codec.NONE, 600, 3, False),
    ]
    assert info.size_bytes == sum(header.size_bytes for header in headers[1:])
    assert [(r.offset, r.value) for r in read_records(stored)] == list(enumerate(VALUES * 3))


def test_a_follower_stores_what_its_leader_stored() -> None:
    log = new_log(LosingFileSystem(), topic("zstd"))

    log.append.as_follower(produced(Codec.GZIP, leader_epoch=1))

    assert log.reader.read(0, 1 << 20).records == produced(Codec.GZIP, leader_epoch=1)


@pytest.mark.parametrize("name", [name for name in BROKEN if "snappy" not in name])
def test_of_an_append_that_cannot_be_converted_nothing_is_written(name: str) -> None:
    log = new_log(LosingFileSystem(), topic("snappy"))
    batch, error = BROKEN[name]

    with pytest.raises(error):
        log.append.as_leader(produced(Codec.GZIP) + batch, 0, NOW_MS)

    assert (log.log_end_offset, log.size_bytes) == (0, 0)
