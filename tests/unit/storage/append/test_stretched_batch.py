"""A follower that was away while its leader cleaned catches up, whatever either of them has cleaned."""

from __future__ import annotations

from random import Random

import pytest

from penstock.errors import CorruptMessageError
from penstock.record.batch import pack_batch, read_header
from penstock.record.builder import build_batch
from storage.append.stretched_batch import without_overlap
from tests.support.compaction import CompactedLog
from tests.support.storage import NOW_MS, batch


def test_offsets_above_the_log_end_of_which_nothing_is_left_are_covered_by_an_empty_batch() -> None:
    options = {"base_offset": 10, "leader_epoch": 3, "offset_deltas": [0, 1], "last_offset_delta": 19}
    stretched = build_batch([b"a", b"b"], timestamps_ms=NOW_MS, **options)  # type: ignore[arg-type]
    after = batch(b"c", base_offset=30, leader_epoch=3)

    records = bytes(without_overlap(stretched + after, 14))
    cover = read_header(records)
    assert (cover.base_offset, cover.next_offset, cover.leader_epoch, cover.record_count) == (14, 30, 3, 0)
    assert records[cover.size_bytes :] == after
    assert without_overlap(stretched, 10) == stretched
    assert without_overlap(stretched, 11) == stretched, "it has a record above: another history"
    assert without_overlap(stretched, 30) == stretched
    assert without_overlap(b"", 5) == b""


def test_a_spoilt_batch_is_not_believed() -> None:
    options = {"base_offset": 10, "leader_epoch": 3, "offset_deltas": [0], "last_offset_delta": 19}
    spoilt = bytearray(build_batch([b"a"], timestamps_ms=NOW_MS, **options))  # type: ignore[arg-type]
    spoilt[-2] ^= 1
    with pytest.raises(CorruptMessageError):
        without_overlap(bytes(spoilt), 14)


def test_of_a_batch_that_cannot_be_decoded_the_count_tells_where_its_records_end() -> None:
    junk = read_header(batch(b"a", base_offset=10, leader_epoch=3))._replace(record_count=3, last_offset_delta=19)
    records = pack_batch(junk, b"\xff" * 30)

    assert read_header(bytes(without_overlap(records, 13))).base_offset == 13
    assert without_overlap(records, 12) == records, "it may have a record above: another history"


@pytest.mark.parametrize("seed", range(40))
def test_a_follower_catches_up_over_what_was_cleaned_meanwhile(seed: int) -> None:
    random, leader, follower = Random(seed), CompactedLog(), CompactedLog()

    def write(count: int) -> None:
        for _ in range(count):
            leader.append(*[(b"k%d" % random.randrange(4), b"%d" % random.randrange(99)) for _ in range(2)])

    def follow() -> None:
        for _ in range(200):
            if follower.log.log_end_offset < leader.log.log_end_offset:
                follower.log.append.as_follower(leader.log.reader.read(follower.log.log_end_offset, 300).records)

    write(random.randrange(1, 12))
    follow()
    if random.random() < 0.5:
        follower.seal()
        follower.clean()
    write(random.randrange(5, 30))
    leader.seal()
    leader.clean()
    write(2)
    follow()

    assert follower.log.log_end_offset == leader.log.log_end_offset
    assert follower.log.epoch_entries == leader.log.epoch_entries
    assert follower.state() == leader.state()
