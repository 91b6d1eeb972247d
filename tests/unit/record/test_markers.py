"""Markers of transactions: built and read in Kafka's bytes; other control batches, and bad ones, are no markers."""

from __future__ import annotations

import struct

import pytest

from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.markers import Marker, build_marker, read_marker
from penstock.record.rewrite import emptied

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_marker_is_read_as_it_was_built(is_committed: bool) -> None:
    marker = Marker(2**63 - 1, 2**15 - 1, is_committed, 2**31 - 1)
    batch = build_marker(marker, NOW_MS)
    header = read_header(batch)

    assert read_marker(batch) == marker
    assert read_marker(b"before" + batch + b"behind", 6) == marker
    assert (header.attributes, header.base_sequence, header.record_count) == (0x30, -1, 1)
    assert header.max_timestamp_ms == NOW_MS


def test_the_record_has_kafkas_bytes() -> None:
    batch = build_marker(Marker(7, 1, True, 5), NOW_MS)
    assert batch[HEADER_BYTES:] == bytes.fromhex("2000000008000000010c00000000000500")


def made(key: bytes | None, value: bytes | None, attributes: int = 0x30, **fields: int) -> bytes:
    batch = build_batch([value], keys=[key], timestamps_ms=NOW_MS, producer_id=7, producer_epoch=1)
    return pack_batch(read_header(batch)._replace(attributes=attributes, **fields), batch[HEADER_BYTES:])


KEY, VALUE = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 5)


@pytest.mark.parametrize(
    "batch",
    [
        made(KEY, VALUE, 0x20),
        made(KEY, VALUE, 0x10),
        made(KEY, VALUE, producer_id=-1),
        made(struct.pack(">hh", 0, 2), VALUE),
        made(struct.pack(">hh", -1, 1), VALUE),
        made(KEY[:3], VALUE),
        made(None, VALUE),
        made(KEY, VALUE[:5]),
        made(KEY, None),
        made(KEY, VALUE, 0x30 | Codec.GZIP),
        made(KEY, VALUE)[:-1] + b"\x09",
        emptied(read_header(made(KEY, VALUE))),
    ],
)
def test_anything_else_is_no_marker(batch: bytes) -> None:
    assert read_marker(batch) is None


def test_a_later_version_may_have_more_fields() -> None:
    batch = made(struct.pack(">hhi", 1, 0, 9), struct.pack(">hiq", 1, 5, 9))
    assert read_marker(batch) == Marker(7, 1, False, 5)
