"""Promises of reading transactional batches and markers, whichever part of them is read at a time.

`kafka_4_3_1_transactions.log` is the segment that Kafka 4.3.1 wrote while it answered the scripts of
`tests/support/txn_offset_scripts.py`; the last transaction was still open.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from broker.coordination.record_log import TxnProducer
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import encode_group_record
from broker.groups.records.record_log import read_group_records
from penstock.errors import CorruptMessageError
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from penstock.types import TopicPartition
from tests.support.group_log import batch_of, in_a_log, loaded_offsets
from tests.support.txn_offset_scripts import SCRIPTS

HERE = Path(__file__).parent
LOG = (HERE / "kafka_4_3_1_transactions.log").read_bytes()
RECORDED = (HERE.parent / "offsets" / "kafka_4_3_1.txt").read_text()
ENDS = [at + header.size_bytes for at, header in iter_headers(LOG)]
P, Q = TxnProducer(7, 0), TxnProducer(8, 3)


def offsets_in(state: GroupOffsetsState) -> dict[str, dict[str, int]]:
    return {group: {f"{p.topic}{p.partition}": one.offset for p, one in state.of_group(group)} for group in
            sorted(state.group_ids())}  # fmt: skip


def waiting(state: GroupOffsetsState) -> set[tuple[str, TopicPartition]]:
    return {(group, place) for group in state.pending.group_ids() for place in state.pending.places_of(group)}


def offsets_of_kafka() -> dict[str, dict[str, int]]:
    """The last answer of Kafka to a fetch of everything, in each script."""
    found = {}
    for script in RECORDED.split("== ")[1:]:
        name, *lines = script.strip().splitlines()
        answers = [line.partition(": ")[2] for line in lines if line.startswith("fetch stable=False")]
        if answers and answers[-1] != "nothing":
            pairs = (word.split("=") for word in answers[-1].split())
            found[name.replace(" ", "-")] = {place: int(offset) for place, offset in pairs}
    return found


def test_kafkas_log_tells_what_kafka_did() -> None:
    state = loaded_offsets(LOG)
    found = offsets_in(state)
    assert {group: found[group] for group in offsets_of_kafka()} == offsets_of_kafka()
    assert set(found) - set(offsets_of_kafka()) == {
        "a-group-that-has-nothing-but-pending-offsets"
    }  # never fetched at last
    assert waiting(state) == {
        ("a-transaction-that-stays-open", TopicPartition("t", 0)),
        ("a-transaction-that-stays-open", TopicPartition("u", 0)),
    }
    assert len(SCRIPTS) == RECORDED.count("== ")


@pytest.mark.parametrize("step", [1, 2, 3, 7, 20])
def test_the_parts_in_which_a_log_is_read_make_no_difference(step: int) -> None:
    cuts = [0, *ENDS[step - 1 :: step], len(LOG)]
    state, whole = loaded_offsets(*(LOG[begin:end] for begin, end in pairwise(cuts))), loaded_offsets(LOG)
    assert offsets_in(state) == offsets_in(whole) and waiting(state) == waiting(whole)
    assert len(state.pending) == len(whole.pending) == 2


def test_records_are_counted() -> None:
    found = read_group_records(LOG, 0)
    control = [header for _, header in iter_headers(LOG) if header.is_control]
    data = [header for _, header in iter_headers(LOG) if header.is_transactional and not header.is_control]
    assert found.transactional == len(control) + sum(header.record_count for header in data)
    assert found.read + len(control) == found.next_offset == sum(h.record_count for _, h in iter_headers(LOG))


def test_a_damaged_marker_is_told() -> None:
    at = next(at for at, header in iter_headers(LOG) if header.is_control)
    damaged = bytearray(LOG)
    damaged[at + 70] ^= 1
    with pytest.raises(CorruptMessageError, match="checksum"):
        read_group_records(bytes(damaged), 0)


def batch(offset: int | None, producer: TxnProducer | None = None, group: str = "g") -> bytes:
    value = None if offset is None else OffsetCommitValue(offset=offset)
    return batch_of(*encode_group_record(OffsetCommitKey(group=group, topic="t"), value), producer)


def end(producer: TxnProducer, is_committed: bool = True) -> bytes:
    return build_marker(Marker(producer.producer_id, producer.producer_epoch, is_committed, 1), 1)


@pytest.mark.parametrize(
    ("log", "offset", "waits"),
    [
        ([batch(5, P)], None, True),
        ([batch(5, P), end(P)], 5, False),
        ([batch(5, P), end(P, False)], None, False),
        ([batch(3), batch(5, P), end(P, False)], 3, False),
        ([batch(5, P), batch(7), end(P)], 7, False),
        ([batch(5, P), batch(7)], 7, True),
        ([batch(5, P), batch(6, Q), end(Q), end(P)], 6, False),
        ([batch(5, P), batch(6, Q), end(Q)], 6, True),
        ([batch(5, P), batch(6, Q), end(P), end(Q)], 6, False),
        ([batch(5, P), end(P), batch(6, P)], 5, True),
        ([batch(5, P), end(P, False), batch(6, P), end(P)], 6, False),
        ([batch(3), batch(5, P), batch(None), end(P)], None, False),
        ([batch(5, P), batch(None), batch(7)], 7, False),
        ([batch(5, P), batch(None), batch(6, P)], None, True),
        ([batch(5, P), batch(None), batch(6, P), end(P)], 6, False),
        ([batch(5, P), batch(7), batch(None), end(P)], None, False),
        ([end(P), batch(7), end(P, False)], 7, False),
    ],
)
def test_the_last_record_that_counts_wins_in_one_part_and_in_many(
    log: list[bytes], offset: int | None, waits: bool
) -> None:
    placed = in_a_log(log)
    for cut in range(len(placed) + 1):
        state = loaded_offsets(b"".join(placed[:cut]), b"".join(placed[cut:]))
        found = state.get("g", "t", 0)
        assert (None if found is None else found.offset) == offset, cut
        assert state.pending.has("g", TopicPartition("t", 0)) is waits, cut


def test_a_control_batch_that_is_no_marker_ends_nothing() -> None:
    other = build_batch([b"\0\0"], keys=[b"\0\0\0\5"], timestamps_ms=1, is_control=True, is_transactional=True,
                        producer_id=P.producer_id, producer_epoch=0)  # fmt: skip
    assert waiting(loaded_offsets(b"".join(in_a_log([batch(5, P), other])))) == {("g", TopicPartition("t", 0))}
