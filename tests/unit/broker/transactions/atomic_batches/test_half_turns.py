"""A failover may leave a beginning of a decision's records: the first one decides, the rest follows after the load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.batches_core import BatchesHere, Writer
from tests.support.transaction_core import P0, P1, TIMEOUT_MS

Decide = Callable[[BatchesHere, list[Writer]], object]
DECISIONS: dict[str, tuple[Decide, set[int]]] = {
    "commit": (lambda here, writers: here.commit(1, *writers[:3], run="a"), {0, 1, 2}),
    "empty": (lambda here, writers: here.commit(1, run="a"), set()),
    "abort": (lambda here, writers: here.abort(1), set()),
    "next version": (lambda here, writers: here.begin(2, run="a"), set()),
    "next run": (lambda here, writers: here.begin(1, run="b"), set()),
    "next run, committed": (lambda here, writers: here.begin(0, run="b"), set()),
    "next run, empty": (lambda here, writers: here.commit(5, run="b"), set()),
}


@pytest.mark.parametrize("what", DECISIONS)
@pytest.mark.parametrize("backwards", [False, True])
def test_all_follow_the_first_record_of_a_decision(what: str, backwards: bool) -> None:
    decide, accepted = DECISIONS[what]
    whole = BatchesHere()
    whole.commit(0, run="a")
    writers = [whole.begun(1, *parts, run="a") for parts in ((P0,), (P0, P1), (P1,), (P0,), ())]
    before = len(whole.log)
    decide(whole, writers)
    assert len(whole.log) > before
    for length in range(before, len(whole.log) + 1):
        here = BatchesHere()
        here.log, here.now_ms = whole.log[:length], whole.now_ms
        if backwards:  # a load gives the records of a portion in no order
            last = dict(here.log)
            here.log = [(key, last[key]) for key in reversed(last)]
        here.failover()
        assert here.states(*writers[:4]) == [
            "Ongoing" if length == before else "PrepareCommit" if place in accepted else "PrepareAbort"
            for place in range(4)
        ]
        here.wait(2 * TIMEOUT_MS)
        ends = here.ends()
        committed = {place for place, writer in enumerate(writers) if ends.get(writer.producer_id)}
        assert committed == (set() if length == before else accepted)
        assert here.states(*writers) == [
            "CompleteCommit" if place in committed else "CompleteAbort" for place in range(5)
        ]


def test_a_request_that_comes_before_the_rest_finds_it_done() -> None:
    asked: tuple[Callable[[BatchesHere], object], ...] = (
        lambda here: here.begin(2),
        lambda here: here.commit(2),
        lambda here: here.begin(1),
        lambda here: here.begin(1, run="b"),
    )
    for ask in asked:
        whole = BatchesHere()
        writer = whole.begun(1, P0)
        before = len(whole.log)
        whole.commit(1, writer)
        here = BatchesHere()
        here.log, here.now_ms = whole.log[: before + 1], whole.now_ms
        here.load()
        ask(here)
        here.take(here.shard.loaded()[0])
        assert here.states(writer) == ["PrepareCommit"]


def test_writers_without_their_application_are_aborted() -> None:
    whole = BatchesHere()
    writer = whole.begun(1, P0)
    here = BatchesHere()
    here.log, here.now_ms = whole.log[1:], whole.now_ms
    here.failover()
    assert here.states(writer) == ["PrepareAbort"]
