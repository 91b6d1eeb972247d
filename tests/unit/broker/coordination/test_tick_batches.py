"""Promises of the batches of one append: a turn stands in one batch where it fits, and none is larger than allowed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.coordination.record_log import StateRecord, TransactionalRecord, TxnProducer, Written
from broker.coordination.tick_batches import TickLimits, tick_batches
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.groups.records.record_log import read_group_records
from penstock.record.batch import iter_headers
from penstock.record.codecs import Codec
from penstock.record.markers import Marker
from penstock.record.reader import read_records
from tests.support.group_log import entries_of

NOW_MS = 1_700_000_000_000


def record(name: str, text: int = 0) -> StateRecord:
    return OffsetCommitKey(group=name, topic="t"), OffsetCommitValue(offset=1, metadata="x" * text, commit_timestamp=1)


def made(
    turns: Sequence[Sequence[Written]], batch: int = 1_000, append: int = 1 << 20, codec: Codec = Codec.NONE
) -> list[bytes]:
    return tick_batches(turns, encode_group_record, NOW_MS, TickLimits(batch, append, codec))


def names(appends: list[bytes]) -> list[list[str]]:
    """The groups of each batch."""
    found = []
    for append in appends:
        for at, header in iter_headers(append):
            keys = [record.key for record in read_records(append[at : at + header.size_bytes])]
            found.append([decoded[0].group for key in keys if (decoded := decode_group_record(key, None))])
    return found


def test_small_turns_share_a_batch() -> None:
    assert names(made([[record("a"), record("b")], [], [record("c")]])) == [["a", "b", "c"]]
    assert made([]) == [] == made([[], []])


def test_a_turn_is_not_parted_where_it_fits_into_a_batch_of_its_own() -> None:
    turns = [[record("a", 400)], [record("b", 300), record("c", 300)], [record("d", 10)]]
    assert names(made(turns)) == [["a"], ["b", "c", "d"]]


def test_a_turn_that_fits_no_batch_takes_several_in_its_order() -> None:
    turns = [[record("a")], [record(f"b{number}", 300) for number in range(7)], [record("c")]]
    appends = made(turns)
    assert [name for batch in names(appends) for name in batch] == ["a", *(f"b{number}" for number in range(7)), "c"]
    sizes = [header.size_bytes for _, header in iter_headers(b"".join(appends))]
    assert len(sizes) == 5 and max(sizes) <= 1_000


def test_an_append_has_no_more_than_a_segment_takes() -> None:
    appends = made([[record(f"g{number}", 800)] for number in range(10)], append=3_000)
    assert len(appends) > 3 and all(len(append) <= 3_000 for append in appends)
    assert [name for batch in names(appends) for name in batch] == [f"g{number}" for number in range(10)]


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read_again(codec: Codec) -> None:
    (append,) = made([[record("a", 500), record("b", 100)]], codec=codec)
    assert {Codec(header.attributes & 7) for _, header in iter_headers(append)} == {codec}
    assert names([append]) == [["a", "b"]] and (codec is Codec.NONE or len(append) < 600)


def test_a_record_larger_than_a_batch_may_be_is_a_batch_of_its_own() -> None:
    turns = [[record("a")], [record("b"), record("c", 2_000), record("d")], [record("e")]]
    assert names(made(turns, append=1_500)) == [["a"], ["b"], ["c"], ["d", "e"]]


def transactional(name: str, producer: TxnProducer, text: int = 0) -> TransactionalRecord:
    return TransactionalRecord(*record(name, text), producer)


def test_records_of_transactions_keep_their_order_each_in_an_append_of_its_own() -> None:
    one, two = TxnProducer(7, 0), TxnProducer(8, 3)
    turns: list[list[Written]] = [
        [record("a")],
        [record("b"), transactional("c", one), transactional("d", one)],
        [transactional("e", one), transactional("f", two)],
        [record("g")],
    ]
    appends = made(turns)
    heads = [[header for _, header in iter_headers(append)] for append in appends]
    assert [[(head.producer_id, head.is_transactional, head.is_control) for head in of_one] for of_one in heads] == [
        [(-1, False, False)],
        [(7, True, False)],
        [(8, True, False)],
        [(-1, False, False)],
    ]
    assert {head.base_sequence for of_one in heads for head in of_one} == {-1}
    read = [entries_of(read_group_records(append, 0)) for append in appends]
    assert [[(entry[0].group, *entry[2:]) for entry in of_one if not isinstance(entry, Marker)] for of_one in read] == [
        [("a",), ("b",)],
        [("c", one), ("d", one), ("e", one)],
        [("f", two)],
        [("g",)],
    ]


def test_a_transactions_records_that_fit_no_batch_take_several() -> None:
    appends = made([[transactional(f"g{number}", TxnProducer(7, 0), 300) for number in range(7)]])
    assert [len([*iter_headers(append)]) for append in appends] == [1] * len(appends) and len(appends) == 4
    assert max(map(len, appends)) <= 1_000
