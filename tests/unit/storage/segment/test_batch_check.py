"""Promises of the check of old bytes: whatever stands there is damage of the file, with the position."""

from __future__ import annotations

from random import Random
from struct import pack_into

import pytest

from penstock.errors import CorruptFileError
from penstock.record.batch import HEADER_BYTES
from penstock.types import EpochEntry
from storage.segment.batch_check import BatchCheck, Span
from storage.segment.places import Place
from tests.support.storage import batch

LENGTH_AT, RECORD_COUNT_AT = 8, 57
CHECK = BatchCheck((EpochEntry(1, 0),))
GOOD = batch(b"first", base_offset=0, leader_epoch=1) + batch(b"second", base_offset=1, leader_epoch=1)


def check(data: bytes) -> None:
    CHECK.check("/d/t-0/0.log", data, Span(Place(0, 0), Place(len(data), 2), 0))


def test_a_header_with_several_bad_fields_is_damage_of_the_file() -> None:
    """It announces a negative number of records, and more bytes than there are."""
    data = bytearray(batch(b"1", base_offset=0, leader_epoch=1) + batch(b"2", base_offset=1, leader_epoch=1))
    at = len(data) // 2
    pack_into(">i", data, at + LENGTH_AT, 1_000_000)
    pack_into(">i", data, at + RECORD_COUNT_AT, -1)
    with pytest.raises(CorruptFileError, match=f"damaged at byte {at}: no batch begins here"):
        check(bytes(data))


def test_no_damage_to_a_batch_is_another_error_than_damage_of_the_file() -> None:
    check(GOOD)
    rng = Random(7)
    for _ in range(500):
        data = bytearray(GOOD)
        for _ in range(rng.randrange(1, 9)):
            data[rng.randrange(HEADER_BYTES) + rng.choice((0, len(batch(b"first"))))] = rng.randrange(256)
        if data != GOOD:
            with pytest.raises(CorruptFileError):
                check(bytes(data))
