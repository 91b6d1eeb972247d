"""A refusal of times names the records, where they can be named."""

from __future__ import annotations

import pytest

from penstock.errors import RECORD_ERRORS_MAX, InvalidTimestampError
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from storage.append.batch_validation import check_produced
from storage.append.time_validation import has_bad_times
from storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(message_timestamp_after_max_ms=1_000, message_timestamp_before_max_ms=5_000)


def produced(*offsets_ms: int, codec: Codec = Codec.NONE, value: bytes = b"v") -> bytes:
    return build_batch(
        [value] * len(offsets_ms), timestamps_ms=[NOW_MS + offset_ms for offset_ms in offsets_ms], codec=codec
    )


def named(records: bytes, *, may_take_long: bool = False) -> list[tuple[int, str]]:
    with pytest.raises(InvalidTimestampError) as found:
        check_produced(records, CONFIG, NOW_MS, may_take_long=may_take_long)
    assert found.value.nothing_written
    return list(found.value.record_errors)


def test_every_record_out_of_range_is_named_with_its_own_time() -> None:
    (late, why_late), (early, why_early) = named(produced(0, 1_000, 1_001, -5_000, -5_001, 7))
    assert (late, early) == (2, 4)
    assert why_late == f"timestamp {NOW_MS + 1_001} is 1001 ms in the future; message.timestamp.after.max.ms = 1000"
    assert why_early == f"timestamp {NOW_MS - 5_001} is 5001 ms in the past; message.timestamp.before.max.ms = 5000"


def test_what_would_take_the_loop_long_is_named_in_a_thread_only() -> None:
    for records in (produced(0, 2_000, codec=Codec.ZSTD), produced(0, 2_000, value=b"v" * 10_000)):
        assert has_bad_times(records, CONFIG, NOW_MS)
        assert named(records) == []
        assert [index for index, _ in named(records, may_take_long=True)] == [1]


def test_no_more_are_named_than_an_answer_should_have() -> None:
    assert len(named(produced(*[2_000] * (RECORD_ERRORS_MAX + 1)))) == RECORD_ERRORS_MAX


def test_of_several_batches_none_is_named() -> None:
    assert named(produced(0, 2_000) + produced(0)) == []


def test_good_times_and_stamped_topics_are_left_alone() -> None:
    assert not has_bad_times(produced(0, 1_000, -5_000), CONFIG, NOW_MS)
    assert not has_bad_times(b"short", CONFIG, NOW_MS)
    stamped = LogConfig(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms=1_000)
    assert not has_bad_times(produced(2_000), stamped, NOW_MS)
    check_produced(produced(2_000), stamped, NOW_MS)
