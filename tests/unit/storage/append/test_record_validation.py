"""A batch's largest timestamp is that of its records, whatever its header says; one that is right stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from penstock.errors import CorruptMessageError, InvalidRecordError, InvalidTimestampError
from penstock.record.batch import HEADER_BYTES, iter_headers, pack_batch, read_header, verify_crc
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from storage.append.append_origin import COORDINATOR
from storage.append.batch_validation import check_produced
from storage.append.recompression import is_due, seen_at_once
from storage.append.record_validation import LOOP_CHANGED_BYTES_MAX, ReadableRecords, readable_at_once
from storage.log_config import LogConfig

NOW_MS = 1_796_000_000_000
RECORDS, HEADERS = LogConfig(), LogConfig(record_validation="headers")


@dataclass(frozen=True)
class Case:
    times_ms: list[int]
    codec: Codec = Codec.NONE

    def batch(self, largest_ms: int | None = None) -> bytes:
        values = [b"v" * (index % 20) for index in range(len(self.times_ms))]
        batch = build_batch(values, timestamps_ms=self.times_ms, codec=self.codec)
        if largest_ms is None:
            return batch
        return pack_batch(read_header(batch)._replace(max_timestamp_ms=largest_ms), batch[HEADER_BYTES:])


CASES = {
    "the newest in the middle": Case([NOW_MS - 7_200_000, NOW_MS, NOW_MS - 7_200_000]),
    "one": Case([NOW_MS]),
    "before the first": Case([NOW_MS, NOW_MS - 50, NOW_MS - 90]),
    "far apart": Case([0, 1, NOW_MS, 3]),
    "many": Case([NOW_MS - 10**6, *(NOW_MS - ago_ms for ago_ms in Random(7).choices(range(10**6), k=500))]),
    "compressed": Case([NOW_MS, NOW_MS + 9, NOW_MS + 1], Codec.LZ4),
}


def checked(records: bytes, config: LogConfig = RECORDS) -> bytes:
    """The records as the log takes them. Their headers are those that were checked."""
    found, batches = check_produced(records, config, NOW_MS, may_take_long=True)
    assert batches == list(iter_headers(found))
    return bytes(found)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("wrong_ms", [-1, 0, NOW_MS - 7_200_000, NOW_MS + 10**9])
def test_a_header_that_is_wrong_is_set_to_what_the_records_say(case: Case, wrong_ms: int) -> None:
    wrong = case.batch(wrong_ms)
    assert checked(wrong) == case.batch()
    at_once = readable_at_once(wrong, list(iter_headers(wrong)))
    assert at_once == case.batch() and isinstance(at_once, ReadableRecords)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_batch_that_is_right_is_not_copied(case: Case) -> None:
    batch = case.batch()
    found, _ = check_produced(batch, RECORDS, NOW_MS)
    assert found is batch


def test_each_of_several_batches_gets_its_own() -> None:
    right, wrong = (b"".join(CASES[name].batch(ms) for name in ("one", "compressed")) for ms in (None, -1))
    assert checked(wrong) == readable_at_once(wrong, list(iter_headers(wrong))) == right


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_damage_is_not_hidden_by_a_new_checksum(codec: Codec) -> None:
    whole = bytearray(Case([NOW_MS] * 3, codec).batch(-1))
    whole[17] ^= 1  # a byte of the checksum
    damaged = bytes(whole)
    assert readable_at_once(damaged, list(iter_headers(damaged))) is None
    with pytest.raises(CorruptMessageError, match="wrong checksum"):
        checked(damaged)


def test_a_large_batch_gets_its_new_header_in_a_thread() -> None:
    right = build_batch([b"v" * LOOP_CHANGED_BYTES_MAX], timestamps_ms=NOW_MS)
    wrong = pack_batch(read_header(right)._replace(max_timestamp_ms=5), right[HEADER_BYTES:])
    assert seen_at_once(right, RECORDS) is not None
    assert seen_at_once(wrong, RECORDS) is None and is_due(wrong, RECORDS) and checked(wrong) == right


def test_the_times_of_a_topic_are_those_of_its_records() -> None:
    """A header does not hide a record that is too new."""
    late = Case([NOW_MS, NOW_MS + 7_200_000]).batch(NOW_MS)
    with pytest.raises(InvalidTimestampError, match="in the future") as refused:
        checked(late)
    assert [index for index, _ in refused.value.record_errors] == [1]
    early = Case([NOW_MS]).batch(NOW_MS + 10**9)
    assert checked(early) == Case([NOW_MS]).batch()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_topic_that_believes_its_producers_mends_what_cannot_be_true(case: Case) -> None:
    """A largest timestamp below the first is that of an old Sarama."""
    assert checked(case.batch(-1), HEADERS) == case.batch()
    assert checked(case.batch(case.times_ms[0]), HEADERS) == case.batch(case.times_ms[0]), "as it came"
    assert is_due(case.batch(-1), HEADERS) and not is_due(case.batch(), HEADERS)
    seen = seen_at_once(case.batch(-1), HEADERS)
    assert seen == case.batch() and type(seen) is bytes, "nobody looked at each record of what is not marked"
    assert seen_at_once(case.batch(), HEADERS) is None


def test_records_that_cannot_be_read_have_no_largest_time() -> None:
    header = read_header(CASES["one"].batch())
    far = b"\xfe" + b"\xff" * 8 + b"\x01"
    beyond_64_bits = pack_batch(header, b"\x20\0" + far + b"\0\x01\x02v\0")
    unreadable = pack_batch(header._replace(max_timestamp_ms=-1), b"\xff" * 20)
    for records, config in ((beyond_64_bits, RECORDS), (unreadable, RECORDS), (unreadable, HEADERS)):
        with pytest.raises(InvalidRecordError):
            checked(records, config)


def test_the_broker_stamps_a_topic_of_its_own_times_so_nothing_is_looked_at_for_them() -> None:
    stamps = LogConfig(record_validation="headers", message_timestamp_type="LogAppendTime")
    wrong = CASES["one"].batch(-1)
    assert checked(wrong, stamps) == wrong and not is_due(wrong, stamps)


def test_a_coordinators_batch_is_not_looked_at() -> None:
    batch = CASES["compressed"].batch(NOW_MS)
    found, _ = check_produced(batch, RECORDS, NOW_MS, origin=COORDINATOR)
    assert found is batch and verify_crc(batch, 0, read_header(batch))


def test_the_records_are_those_that_came() -> None:
    case = CASES["many"]
    assert read_records(checked(case.batch(5))) == read_records(case.batch())
