"""A record without a key never gets into a compacted topic, however it is packed, and nothing around it does either."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import CorruptMessageError, InvalidRecordError, MessageTooLargeError, PenstockError
from penstock.record.batch import HEADER_BYTES, iter_headers, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress
from storage.append.key_validation import LOOP_BYTES_MAX, KeyedRecords, check_keys, takes_long
from storage.append.recompression import is_due
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, new_log, read_all

COMPACTED = replace(SMALL, cleanup_policy="compact", segment_bytes=1 << 20)


def batch(*keys: bytes | None, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([b"v"] * len(keys), timestamps_ms=NOW_MS, keys=keys, codec=codec)


def checked(records: bytes, max_unpacked_bytes: int = 1 << 20) -> None:
    check_keys(records, list(iter_headers(records)), max_unpacked_bytes)


@pytest.mark.parametrize("policy", ["compact", "delete,compact"])
@pytest.mark.parametrize("codec", Codec)
def test_a_null_key_is_refused_and_nothing_is_written(codec: Codec, policy: str) -> None:
    log = new_log(LosingFileSystem(), replace(COMPACTED, cleanup_policy=policy))
    log.append.as_leader(batch(b"kept"), 1, NOW_MS)
    size = log.size_bytes
    with pytest.raises(InvalidRecordError, match=r"record 2 of the batch at byte \d+ has no key"):
        log.append.as_leader(batch(b"a", b"b") + batch(b"c", b"", None, b"d", codec=codec), 1, NOW_MS)
    assert (log.size_bytes, log.log_end_offset) == (size, 1)
    log.append.as_leader(batch(b"a", b"", codec=codec), 1, NOW_MS)
    assert log.log_end_offset == 3


def test_a_topic_that_is_not_compacted_takes_records_without_keys() -> None:
    log = new_log(LosingFileSystem())
    log.append.as_leader(batch(None, b"a"), 1, NOW_MS)
    assert len(read_all(log)) == 2


def test_a_null_key_among_many_records_of_one_size_is_found() -> None:
    keys: list[bytes | None] = [b"%04d" % number for number in range(5000)]
    checked(batch(*keys))
    for place in (0, 2500, 4999):
        with pytest.raises(InvalidRecordError, match=f"record {place} "):
            checked(batch(*keys[:place], None, *keys[place + 1 :]))


def _with_body(body: bytes, codec: Codec, count: int = 1) -> bytes:
    """A batch whose checksum is right and whose records are whatever it says."""
    header = read_header(batch(*[b"k"] * count))
    return pack_batch(header._replace(attributes=int(codec)), body)


BAD_BODIES: dict[str, tuple[bytes, type[PenstockError]]] = {
    "a stream that is none": (_with_body(b"no gzip at all", Codec.GZIP), CorruptMessageError),
    "more than may be unpacked": (_with_body(compress(Codec.ZSTD, bytes(2 << 20)), Codec.ZSTD), MessageTooLargeError),
    "fewer records than announced": (_with_body(batch(b"k")[HEADER_BYTES:], Codec.NONE, 3), CorruptMessageError),
    "bytes behind the last record": (_with_body(batch(b"k")[HEADER_BYTES:] + b"x", Codec.NONE), CorruptMessageError),
    "a record that ends early": (_with_body(b"\x02" + bytes(20), Codec.NONE), CorruptMessageError),
}


@pytest.mark.parametrize("row", BAD_BODIES)
def test_what_cannot_be_taken_apart_is_refused_with_a_typed_error(row: str) -> None:
    records, error = BAD_BODIES[row]
    with pytest.raises(error):
        checked(records)


def test_the_batches_of_one_append_share_what_they_may_unpack_to() -> None:
    large = build_batch([bytes(1000)], timestamps_ms=NOW_MS, keys=[b"k"], codec=Codec.ZSTD)
    checked(large, 1100)
    with pytest.raises(MessageTooLargeError):
        checked(large + large, 1100)


def test_records_that_have_passed_are_not_looked_at_again() -> None:
    checked(KeyedRecords(batch(None)))


def test_what_takes_long_is_for_a_thread() -> None:
    small, packed = batch(b"k"), batch(b"k", codec=Codec.LZ4)
    large = build_batch([bytes(LOOP_BYTES_MAX)], timestamps_ms=NOW_MS, keys=[b"k"])
    assert [takes_long(iter_headers(records)) for records in (small, packed, large)] == [False, True, True]
    assert [is_due(records, COMPACTED) for records in (small, packed, large)] == [False, True, True]
    assert not is_due(packed, replace(SMALL, record_validation="headers"))


def test_every_record_without_a_key_is_named() -> None:
    keys = [None if n in (0, 3) else b"k" for n in range(5)]
    records = build_batch([b"v"] * 5, keys=keys, timestamps_ms=1_700_000_000_000)
    with pytest.raises(InvalidRecordError, match="record 0 of the batch at byte 0 has no key") as found:
        checked(records)
    assert [(bad.batch_index, bad.message[:21]) for bad in found.value.record_errors] == [
        (0, "the record has no key"),
        (3, "the record has no key"),
    ]
    with pytest.raises(InvalidRecordError) as found:
        checked(records + records)
    assert found.value.record_errors == ()
