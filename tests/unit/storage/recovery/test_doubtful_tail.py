"""An append that a crash tore off is told from a batch that may have been flushed before it rotted."""

from __future__ import annotations

import pytest

from penstock.record.builder import build_batch
from storage.recovery.doubtful_tail import is_torn_append

FIRST = build_batch([b"a" * 40] * 3, timestamps_ms=0, base_offset=7, leader_epoch=2)
SECOND = build_batch([b"b" * 40] * 2, timestamps_ms=0, base_offset=10, leader_epoch=2)


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + length.to_bytes(4, "big") + batch[12:]


@pytest.mark.parametrize("size", range(len(FIRST)))
def test_batch_cut_short_anywhere_is_a_torn_append(size: int) -> None:
    assert is_torn_append(FIRST[:size], 7)


def test_batch_of_full_length_is_not() -> None:
    for at in range(len(FIRST)):
        assert not is_torn_append(FIRST[:at] + bytes([FIRST[at] ^ 0x10]) + FIRST[at + 1 :], 7), at


def test_damage_with_a_batch_behind_it_is_not() -> None:
    for at in range(len(FIRST)):
        assert not is_torn_append(FIRST[:at] + bytes([FIRST[at] ^ 0x10]) + FIRST[at + 1 :] + SECOND, 7), at


@pytest.mark.parametrize("behind", [b"", SECOND, SECOND + SECOND], ids=["alone", "followed", "followed by two"])
def test_length_that_has_grown_does_not_make_a_whole_batch_a_torn_one(behind: bytes) -> None:
    assert not is_torn_append(with_length(FIRST, 1 << 20) + behind, 7)


@pytest.mark.parametrize("tail", [FIRST[:30], FIRST[:-1], b"\0" * 20, b"\0" * 200], ids=["short", "long", "0", "zeros"])
def test_bytes_of_another_offset_are_not(tail: bytes) -> None:
    assert not is_torn_append(tail, 8)
