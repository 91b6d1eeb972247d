"""Versions of an application: each is committed once, with the writers that were named, or not at all."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidTxnStateError, InvalidUpdateVersionError
from penstock.messages.transactions.atomic_batches import (
    ONLY_WRITERS,
    AbortAtomicBatchRequest,
    AbortAtomicBatchResponse,
    CommitAtomicBatchRequest,
    CommitAtomicBatchResponse,
)
from tests.support.batches_core import BatchesHere
from tests.support.transaction_core import P0, P1, TIMEOUT_MS


def test_one_decision_commits_the_writers_that_are_named_and_aborts_the_others() -> None:
    here = BatchesHere()
    one, two, three = here.begun(0, P0), here.begun(0, P1), here.begun(0, P0)
    assert here.commit(0, one, two) is False
    assert here.states(one, two, three) == ["PrepareCommit", "PrepareCommit", "PrepareAbort"]
    assert here.ends() == {one.producer_id: True, two.producer_id: True, three.producer_id: False}


def test_the_record_of_the_application_is_the_first_of_its_decision() -> None:
    here = BatchesHere()
    writers = [here.begun(0, P0) for _ in range(3)]
    before = len(here.log)
    here.commit(0, *writers)
    assert [key[:2] for key, _ in here.log[before:]] == [b"\x03\xe8", *[b"\x00\x00"] * 3]


def test_a_version_that_is_committed_stays_so_whoever_asks_again() -> None:
    here = BatchesHere()
    writer = here.begun(4, P0)
    assert here.commit(4, writer) is False
    for _ in range(2):
        assert here.commit(4, writer) is True
        assert here.begin(4) is None
        assert here.abort(4) is True
        here.failover()
    here.markers_written()
    assert here.commit(4) is True and here.begin(4) is None


def test_a_version_below_the_last_one_is_refused_and_changes_nothing() -> None:
    here = BatchesHere()
    here.commit(7)
    open_now, log = here.begun(8, P0), len(here.log)
    for call in (here.begin, here.commit):
        with pytest.raises(InvalidUpdateVersionError, match="below the last one that was committed, 7"):
            call(6)
    assert here.abort(6) is False
    assert len(here.log) == log + 1 - 1 and here.states(open_now) == ["Ongoing"]


def test_versions_may_leave_some_out_and_the_first_may_be_any() -> None:
    here = BatchesHere()
    assert [here.commit(version) for version in (100, 103, 2**62)] == [False] * 3


def test_an_application_that_goes_back_begins_again_from_there() -> None:
    here = BatchesHere()
    here.commit(9)
    assert here.begin(9, goes_back=True) is None, "the last one is committed whatever is said"
    writer = here.begin(5, goes_back=True)
    assert writer is not None and here.writes(writer) is None
    assert here.begin(9) is None, "nothing is decided yet: 9 is still the last one"
    with pytest.raises(InvalidUpdateVersionError):
        here.commit(5, writer)
    assert here.commit(5, writer, goes_back=True) is False
    assert here.commit(5, writer) is True
    assert here.begin(6) is not None


def test_an_empty_version_needs_no_begin_and_aborts_whoever_has_begun() -> None:
    here = BatchesHere()
    assert here.commit(0) is False and here.commit(0) is True
    writer = here.begun(1, P0)
    assert here.commit(1) is False
    assert here.ends() == {writer.producer_id: False}


def test_a_higher_version_aborts_what_is_open_of_a_lower_one() -> None:
    here = BatchesHere()
    here.commit(0)
    one = here.begun(1, P0)
    two = here.begun(2, P0)
    assert here.states(one, two) == ["PrepareAbort", "Ongoing"]
    for late in (here.begin, here.commit):
        with pytest.raises(InvalidUpdateVersionError, match="given up when version 2 began"):
            late(1)
    with pytest.raises(InvalidTxnStateError):
        here.commit(3, two)
    assert here.commit(3) is False, "an empty one may be above what is open, too"
    assert here.states(two) == ["PrepareAbort"]


def test_an_abort_ends_the_version_and_it_may_begin_again() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    assert [here.abort(0), here.abort(0)] == [False, False]
    assert here.ends() == {one.producer_id: False}
    with pytest.raises(InvalidTxnStateError, match="is not open"):
        here.commit(0, one)
    again = here.begun(0, P0)
    assert here.commit(0, again) is False


def test_an_abort_of_whatever_is_open_names_no_version() -> None:
    here = BatchesHere()
    assert here.abort(-1) is False
    writer = here.begun(3, P0)
    assert here.abort(2) is False and here.states(writer) == ["Ongoing"]
    assert here.abort(-1) is False and here.states(writer) == ["PrepareAbort"]


def test_a_writer_that_is_not_open_any_more_is_no_part_of_a_commit() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    here.wait(TIMEOUT_MS - 1)
    two = here.begun(0, P1)
    here.wait(1)
    log = len(here.log)
    with pytest.raises(InvalidTxnStateError, match="no open writer of version 0"):
        here.commit(0, one, two)
    assert len(here.log) == log and here.states(one, two) == ["PrepareAbort", "Ongoing"]
    assert here.commit(0, two) is False
    assert here.ends() == {one.producer_id: False, two.producer_id: True}


def test_a_decided_version_is_not_undone_by_time_or_failover() -> None:
    here = BatchesHere()
    writer = here.begun(0, P0)
    here.commit(0, writer)
    for _ in range(3):
        here.wait(20 * TIMEOUT_MS)
        here.failover()
    assert here.states(writer) == ["PrepareCommit"] and here.ends() == {writer.producer_id: True}


def test_applications_have_nothing_to_do_with_each_other() -> None:
    here = BatchesHere()
    mine, other = here.begun(0, P0), here.begun(0, P0, application="other")
    with pytest.raises(InvalidTxnStateError):
        here.commit(0, mine, other)
    here.commit(0, mine)
    assert here.states(other, application="other") == ["Ongoing"]


def test_who_commits_a_version_again_is_told_what_the_first_one_said_of_its_records() -> None:
    here = BatchesHere()
    first = here.ask(CommitAtomicBatchRequest("app", 0, records=7, checksum=2**63 - 1))
    again = here.ask(CommitAtomicBatchRequest("app", 0, records=9, checksum=5))
    sums = 7, 2**63 - 1
    assert (first, again) == (CommitAtomicBatchResponse(False, *sums), CommitAtomicBatchResponse(True, *sums))
    here.begun(1, P0, run="a")
    here.failover()
    here.abort(1)
    assert here.ask(CommitAtomicBatchRequest("app", 0)) == CommitAtomicBatchResponse(True, *sums)
    here.commit(1)
    here.failover()
    assert here.ask(CommitAtomicBatchRequest("app", 1, records=9, checksum=5)) == CommitAtomicBatchResponse(True, -1, 0)


def test_a_question_for_the_last_version_changes_nothing_and_fences_nobody() -> None:
    here = BatchesHere()
    question = AbortAtomicBatchRequest("app", ONLY_WRITERS, "another run")
    assert here.ask(question) == AbortAtomicBatchResponse(False, 0)
    here.commit(7, here.begun(7, P0, run="a"), run="a")
    open_now, log = here.begun(8, P0, run="a"), len(here.log)
    assert here.ask(question) == AbortAtomicBatchResponse(False, 8)
    assert len(here.log) == log and here.states(open_now) == ["Ongoing"]


def test_the_counts_are_those_of_versions() -> None:
    here = BatchesHere()
    here.commit(0, here.begun(0, P0))
    here.begun(1, P0)
    here.begun(2, P0)
    here.abort(2)
    assert (here.counters.batches_committed, here.counters.batches_aborted) == (1, 2)
    assert here.shard.statistics().applications == 1
