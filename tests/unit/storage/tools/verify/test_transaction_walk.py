"""The walk finds every entry of an aborted index that would show aborted records, or hide committed ones."""

from __future__ import annotations

from random import Random

import pytest

from penstock.record.batch import BatchHeader
from penstock.record.markers import read_marker
from storage.segment.transaction_index import AbortedRange
from storage.tools.verify.verify_transactions import TransactionWalk
from tests.support.transactions import DrawnTransactions, Stored, batches_of, committed, ends_of, next_offset, placed

Batches = list[tuple[BatchHeader, bytes]]


def drawn(seed: int) -> Batches:
    draw, offset, found = DrawnTransactions(Random(seed)), 0, []
    for _ in range(60):
        batch = placed(draw.next(), offset)
        offset = next_offset(batch)
        found += batches_of(batch)
    return found


def faults(batches: Batches, entries: list[AbortedRange]) -> list[str]:
    walk = TransactionWalk()
    for header, batch in batches:
        if header.is_transactional:
            walk.note(header, read_marker(batch))
    return [why for _, why in walk.faults(entries)]


def view(batches: Batches, entries: list[AbortedRange]) -> list[Stored]:
    return committed(batches, entries)


@pytest.mark.parametrize("seed", range(20))
def test_an_entry_that_changes_what_readers_get_is_a_fault(seed: int) -> None:
    batches, random = drawn(seed), Random(seed)
    entries = ends_of(batches).aborted
    assert faults(batches, entries) == []
    for at, entry in enumerate(entries):
        changes = {
            "missing": [],
            "other producer": [entry._replace(producer_id=entry.producer_id + 1000)],
            "moved marker": [entry._replace(last_offset=entry.last_offset + 1)],
            "moved start": [entry._replace(first_offset=random.randint(0, entry.last_offset))],
        }
        for what, changed in changes.items():
            wrong = [*entries[:at], *changed, *entries[at + 1 :]]
            if view(batches, wrong) != view(batches, entries):
                assert faults(batches, wrong), (what, entry)


def test_an_entry_without_batches_is_no_fault_while_its_marker_is_there() -> None:
    batches = drawn(3)
    entry = ends_of(batches).aborted[0]
    left = [
        (header, batch)
        for header, batch in batches
        if header.producer_id != entry.producer_id
        or header.base_offset == entry.last_offset
        or not entry.first_offset <= header.base_offset < entry.last_offset
    ]
    assert faults(left, ends_of(batches).aborted) == []
    without_marker = [one for one in left if one[0].base_offset != entry.last_offset]
    assert len(faults(without_marker, ends_of(batches).aborted)) == 1


def test_segments_are_judged_one_by_one() -> None:
    batches = drawn(5)
    entries = ends_of(batches).aborted
    walk = TransactionWalk()
    middle = batches[len(batches) // 2][0].base_offset
    for header, batch in batches:
        if header.base_offset == middle:
            assert not list(walk.faults([one for one in entries if one.last_offset < middle]))
            walk.segment_ended()
        if header.is_transactional:
            walk.note(header, read_marker(batch))
    assert not list(walk.faults([one for one in entries if one.last_offset >= middle]))
