"""A batch is believed only as far as its bytes go, by a leader and by a follower, before a byte of it is written."""

from __future__ import annotations

import gzip

import pytest

from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
)
from penstock.record.batch import HEADER_BYTES, pack_batch, placement, read_header
from penstock.record.codecs import Codec, compress
from storage.append.batch_validation import check_fetched, check_produced
from storage.append.placing import fetched_runs
from storage.log_config import LogConfig
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log, read_all, reopened

GOOD = batch(b"value")
BODY = GOOD[HEADER_BYTES:]
MANY = 2**31 - 1
CREATE_TIME = LogConfig()
HUGE = 900 << 20


def made(body: bytes = BODY, **fields: int) -> bytes:
    """A batch with these fields and a right checksum."""
    return pack_batch(read_header(GOOD)._replace(**fields), body)


def announcing(count: int, body: bytes = BODY, codec: Codec = Codec.NONE) -> bytes:
    return made(body, record_count=count, last_offset_delta=count - 1, attributes=codec)


def zstd_announcing(size_bytes: int) -> bytes:
    """A frame whose header announces so many bytes, in four."""
    return bytes.fromhex("28b52ffd80 58") + size_bytes.to_bytes(4, "little") + b"\x01\x00\x00"


REFUSED: dict[str, tuple[bytes, type[ApiError]]] = {
    "2^31-1 records in 8 bytes": (announcing(MANY, b"junkjunk"), InvalidRecordError),
    "five records in the bytes of one": (announcing(5), InvalidRecordError),
    "no record at all": (announcing(0), CorruptMessageError),
    "a delta that is not the count": (made(last_offset_delta=MANY), InvalidRecordError),
    "a record without a byte": (announcing(1, b""), InvalidRecordError),
    "2^31-1 records in a zstd frame": (announcing(MANY, compress(Codec.ZSTD, BODY), Codec.ZSTD), InvalidRecordError),
    "2^31-1 records in a snappy block": (
        announcing(MANY, compress(Codec.SNAPPY, BODY), Codec.SNAPPY),
        InvalidRecordError,
    ),
    "a plain body that says zstd": (made(attributes=Codec.ZSTD), CorruptMessageError),
    "a plain body that says gzip": (made(attributes=Codec.GZIP), CorruptMessageError),
    "a plain body that says lz4": (made(attributes=Codec.LZ4), CorruptMessageError),
    "a snappy block without an end of its size": (announcing(1, b"\xff" * 9, Codec.SNAPPY), CorruptMessageError),
    "zstd that announces 900 MiB": (announcing(1, zstd_announcing(HUGE), Codec.ZSTD), MessageTooLargeError),
    "gzip that announces 900 MiB": (
        announcing(1, gzip.compress(b"x" * 50)[:-4] + HUGE.to_bytes(4, "little"), Codec.GZIP),
        MessageTooLargeError,
    ),
    "snappy that announces 900 MiB": (
        announcing(1, b"\x80\x80\x80\xc2\x03" + b"x" * 9, Codec.SNAPPY),
        MessageTooLargeError,
    ),
    "lz4 that announces 900 MiB": (
        announcing(1, bytes.fromhex("04224d18 68 40") + HUGE.to_bytes(8, "little") + b"\x00" * 9, Codec.LZ4),
        MessageTooLargeError,
    ),
    "unknown codec 5": (made(attributes=5), UnsupportedCompressionTypeError),
    "transactional": (made(attributes=0x10), InvalidRecordError),
    "control": (made(attributes=0x20), InvalidRecordError),
    "transactional control": (made(attributes=0x30), InvalidRecordError),
    "delete horizon": (made(attributes=0x40), InvalidRecordError),
    "unknown attribute bits": (made(attributes=0x7F80), InvalidRecordError),
    "negative attributes": (made(attributes=-128), InvalidRecordError),
    "log append time of a producer": (made(attributes=8), InvalidTimestampError),
    "a producer id": (made(producer_id=5), InvalidRecordError),
    "a negative producer id": (made(producer_id=-5), InvalidRecordError),
    "a producer epoch without a sequence": (made(producer_id=5, producer_epoch=0), InvalidRecordError),
    "a negative producer epoch": (made(producer_id=5, producer_epoch=-2, base_sequence=0), InvalidRecordError),
    "records that are all before the first time": (
        made(b"\x0e\0\x01\0\x01\x02v\0", max_timestamp_ms=0),
        InvalidTimestampError,
    ),
    "a time after all": (made(base_timestamp_ms=2**63 - 1, max_timestamp_ms=2**63 - 1), InvalidTimestampError),
    "a time before all": (made(base_timestamp_ms=-(2**63)), InvalidTimestampError),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_leader_refuses_what_a_batch_only_announces(why: str) -> None:
    lie, error = REFUSED[why]
    fs = LosingFileSystem()
    log = new_log(fs, CREATE_TIME)
    log.append.as_leader(GOOD, 0, NOW_MS)
    before = log.log_end_offset, log.size_bytes, repr(log.segments[0].indexes)

    with pytest.raises(error) as refused:
        log.append.as_leader(GOOD + lie, 0, NOW_MS)

    assert type(refused.value) is error
    assert (log.log_end_offset, log.size_bytes, repr(log.segments[0].indexes)) == before
    assert fs.size(log.segments[0].log_path) == log.size_bytes


@pytest.mark.parametrize("fields", [{"base_sequence": 0}, {"producer_epoch": 0}, {"base_sequence": -7}], ids=str)
def test_without_a_producer_id_epoch_and_sequence_mean_nothing(fields: dict[str, int]) -> None:
    """A client of Kafka's numbers the batches of a producer that is not idempotent. Each is a batch of its own."""
    fs = LosingFileSystem()
    log = new_log(fs, CREATE_TIME)
    offsets = [log.append.as_leader(made(**fields), 0, NOW_MS).first_offset for _ in range(2)]
    assert offsets == [0, 1], "a log without producer ids would refuse a numbered batch"
    log.flush()
    assert read_all(reopened(fs, 0)) == [(0, b"value"), (1, b"value")]


def test_two_thousand_batches_that_announce_all_offsets_are_refused_before_a_byte() -> None:
    fs = LosingFileSystem()
    log = new_log(fs, CREATE_TIME)

    with pytest.raises(InvalidRecordError, match="announces 2147483647 records, but has room for 1"):
        log.append.as_leader(announcing(MANY, b"junkjunk") * 2000, 0, NOW_MS)

    assert fs.size(log.segments[0].log_path) == 0


def test_the_records_of_one_append_fit_the_index_of_one_segment() -> None:
    body = compress(Codec.ZSTD, bytes(60 << 20))
    most = (60 << 20) // 7
    batches = MAX_RELATIVE_OFFSET // most

    config = LogConfig(record_validation="headers")
    _, checked = check_produced(announcing(most, body, Codec.ZSTD) * batches, config, NOW_MS)
    assert len(checked) == batches
    with pytest.raises(RecordListTooLargeError, match="whose index holds"):
        check_produced(announcing(most, body, Codec.ZSTD) * (batches + 1), config, NOW_MS)


def test_what_honest_producers_send_is_taken() -> None:
    for codec in Codec:
        check_produced(announcing(1, compress(codec, BODY), codec), CREATE_TIME, NOW_MS)
    check_produced(made(attributes=8), LogConfig(message_timestamp_type="LogAppendTime"), NOW_MS)
    check_produced(made(base_timestamp_ms=-1, max_timestamp_ms=-1), CREATE_TIME, NOW_MS)
    skippable = bytes.fromhex("502a4d18 00000000") + compress(Codec.ZSTD, BODY)
    check_produced(announcing(1, skippable, Codec.ZSTD), CREATE_TIME, NOW_MS)


def test_unpacking_finds_the_lie_that_a_packed_body_hides() -> None:
    lie = announcing(1000, compress(Codec.ZSTD, bytes(500)), Codec.ZSTD)
    log = new_log(LosingFileSystem(), LogConfig(compression_type="uncompressed", record_validation="headers"))

    with pytest.raises(InvalidRecordError, match="unpacks to 500 bytes announces 1000 records, but has room for 71"):
        log.append.as_leader(lie, 0, NOW_MS)


# -- from a leader -----------------------------------------------------------------------------------------------------


def placed(lie: bytes, base_offset: int = 0) -> bytes:
    header = read_header(lie)
    return placement(base_offset, header.batch_length, 0) + lie[16:]


@pytest.mark.parametrize("count", [2, MANY])
def test_a_follower_refuses_what_cannot_be_there(count: int) -> None:
    log = new_log(LosingFileSystem(), CREATE_TIME)

    with pytest.raises(
        CorruptMessageError, match=f"announces {count} records, .* delete the records up to {count - 1}"
    ):
        log.append.as_follower(placed(announcing(count)))
    with pytest.raises(CorruptMessageError, match="last offset delta -1"):
        log.append.as_follower(placed(made(last_offset_delta=-1)))
    with pytest.raises(CorruptMessageError, match="announces 2 records for 1 offsets"):
        log.append.as_follower(placed(made(BODY * 2, record_count=2)))

    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_a_follower_takes_what_the_cleaner_stretched() -> None:
    log = new_log(LosingFileSystem(), CREATE_TIME)

    log.append.as_follower(placed(made(last_offset_delta=9)))
    log.append.as_follower(placed(made(b"", record_count=0, last_offset_delta=4), 10))

    assert (log.log_end_offset, read_all(log)) == (15, [(0, b"value")])


def test_a_fetch_over_more_offsets_than_an_index_holds_goes_into_several_segments() -> None:
    wide = MAX_RELATIVE_OFFSET // 2
    records = b"".join(placed(made(last_offset_delta=wide - 1), at * wide) for at in range(5))
    batches = check_fetched(records, 0, 0)

    spans = [run.next_offset - run.headers[0].base_offset for run in fetched_runs(records, batches, 1 << 20, 1 << 20)]
    log = new_log(LosingFileSystem(), CREATE_TIME)
    log.append.as_follower(records)

    assert max(spans) <= MAX_RELATIVE_OFFSET and sum(spans) == 5 * wide
    assert log.log_end_offset == 5 * wide and len(log.segments) == len(spans)
