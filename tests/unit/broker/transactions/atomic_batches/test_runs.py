"""Runs of an application: a new one fences the one before, and aborts what it has open."""

from __future__ import annotations

import pytest

from broker.transactions.atomic_batches.application import FENCED_RUNS_MAX
from penstock.errors import InvalidTxnStateError, ProducerFencedError
from tests.support.batches_core import BatchesHere
from tests.support.transaction_core import P0, P1


def test_a_new_run_aborts_what_the_one_before_has_open_in_any_version() -> None:
    for version in (0, 1, 5):
        here = BatchesHere()
        here.commit(0, run="a")
        old = here.begun(3, P0, run="a")
        if version == 0:
            assert here.begin(0, run="b") is None
        else:
            here.begun(version, P1, run="b")
        assert here.states(old) == ["PrepareAbort"]


def test_a_fenced_run_is_refused_whatever_it_asks() -> None:
    here = BatchesHere()
    old = here.begun(1, P0, run="a")
    new = here.begun(1, P0, run="b")
    for _ in range(2):
        for call in (
            lambda: here.begin(1, run="a"),
            lambda: here.commit(1, old, run="a"),
            lambda: here.commit(1, run="a"),
            lambda: here.abort(1, run="a"),
        ):
            with pytest.raises(ProducerFencedError, match=r"run 'b' has begun: two runs .* copied checkpoint"):
                call()
        here.failover()
    assert here.commit(1, new, run="b") is False
    assert here.counters.runs_fenced == 1


def test_a_new_run_cannot_commit_the_writers_of_the_one_before() -> None:
    here = BatchesHere()
    old = here.begun(1, P0, run="a")
    with pytest.raises(InvalidTxnStateError):
        here.commit(1, old, run="b")
    assert here.states(old) == ["Ongoing"], "a request that is refused changes nothing"
    assert here.commit(1, old, run="a") is False


def test_a_new_run_may_begin_with_an_empty_version_or_one_that_is_committed() -> None:
    here = BatchesHere()
    old = here.begun(1, P0, run="a")
    assert here.commit(1, run="b") is False
    assert here.states(old) == ["PrepareAbort"]
    assert here.commit(1, run="c") is True
    for run in "ab":
        with pytest.raises(ProducerFencedError):
            here.begin(2, run=run)


def test_an_abort_of_another_run_is_not_meant_for_what_is_open() -> None:
    here = BatchesHere()
    writer = here.begun(1, P0, run="a")
    assert here.abort(1, run="b") is False
    assert here.states(writer) == ["Ongoing"]
    assert here.abort(1) is False, "an operator names no run"
    assert here.states(writer) == ["PrepareAbort"]


def test_requests_without_a_run_are_any_runs() -> None:
    here = BatchesHere()
    one = here.begun(0, P0, run="a")
    two = here.begun(0, P1)
    assert here.commit(0, one, two, run="a") is False
    three = here.begun(1, P0)
    assert here.commit(1, three) is False
    assert here.begin(2, run="a") is not None, "nobody has fenced it"


def test_the_first_run_that_is_named_aborts_what_an_unnamed_one_has_open() -> None:
    here = BatchesHere()
    old = here.begun(0, P0)
    new = here.begun(0, P0, run="a")
    assert here.states(old, new) == ["PrepareAbort", "Ongoing"] and here.counters.runs_fenced == 0


def test_so_many_runs_are_known_to_be_over() -> None:
    here = BatchesHere()
    for number in range(FENCED_RUNS_MAX + 2):
        here.begin(number, run=f"run-{number}")
    here.failover()
    for number in range(1, FENCED_RUNS_MAX + 1):
        with pytest.raises(ProducerFencedError):
            here.begin(99, run=f"run-{number}")
    assert here.begin(99, run="run-0") is not None
