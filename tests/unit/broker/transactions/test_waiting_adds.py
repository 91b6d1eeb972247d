"""Promises to a producer that begins again at once: the answer comes with the end of its last transaction, or soon."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordination.turn import Turn
from broker.transactions.marker_port import MarkersWritten
from broker.transactions.waiting_adds import OF_ID_MAX, WAIT_MS
from penstock.errors import ApiError, ConcurrentTransactionsError, NotCoordinatorError, ProducerFencedError
from penstock.messages.transactions.producers import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitions,
)
from tests.support.transaction_core import CLIENT, P0, TransactionsHere


class Here(TransactionsHere):
    """One transaction of `t` is decided, and its marker is not written."""

    def __init__(self, version: int = 2) -> None:
        super().__init__()
        self.answered: dict[str, Any] = {}
        first = self.init()
        self.add(first, P0, version=version)
        given = self.end(first, version=version)
        self.producer = given if version == 2 else first

    def take(self, decide: Any) -> Turn:
        turn = super().take(decide)
        self.__dict__.setdefault("answered", {}).update(
            (who, given) for who, given in turn.answers if isinstance(who, str)
        )
        return turn

    def submit(self, who: str, request: Any) -> None:
        self.take(lambda turn: self.shard.handle(turn, who, request, CLIENT))

    def error_of(self, who: str) -> ApiError | None:
        answer = self.answered[who]
        assert isinstance(answer, AddPartitionsToTxnResponse)
        return answer.transactions[0].partitions[0].error

    def adds(self, *producers: tuple[int, int], waits: bool = True, version: int = 2) -> AddPartitionsToTxnRequest:
        asked = (TransactionPartitions("t", *one, (P0,), bumps_epoch=version == 2) for one in producers)
        return AddPartitionsToTxnRequest(tuple(asked), waits)


@pytest.mark.parametrize("version", [1, 2])
def test_the_end_of_one_and_the_begin_of_the_next_are_one_turn(version: int) -> None:
    here = Here(version)
    here.submit("next", here.adds(here.producer, version=version))
    here.submit("of another leader", here.adds(here.producer, version=version))
    assert "next" not in here.answered and here.state() == "PrepareCommit"
    (end,) = here.sender.sent
    written = MarkersWritten("t", end.producer_id, end.producer_epoch, end.decided_ms)
    turn = here.take(lambda turn: here.shard.handle(turn, "sender", written, CLIENT))
    assert [value.state.value for _, value, *_ in turn.records if value is not None] == ["CompleteCommit", "Ongoing"]
    assert here.error_of("next") is here.error_of("of another leader") is None
    assert here.shard.timers.due_ms("t") is not None and len(here.shard.timers) == 1, "its own time-out alone"


def test_markers_that_take_long_have_the_producer_ask_again() -> None:
    here = Here()
    here.submit("next", here.adds(here.producer))
    here.wait(WAIT_MS - 1)
    assert "next" not in here.answered
    here.wait(1)
    assert isinstance(here.error_of("next"), ConcurrentTransactionsError)
    here.markers_written()
    here.submit("again", here.adds(here.producer))
    assert here.error_of("again") is None


def test_a_group_is_added_so_too() -> None:
    here = Here()
    here.submit("group", AddOffsetsToTxnRequest("t", *here.producer, "g", waits=True))
    here.submit("of a former epoch", AddOffsetsToTxnRequest("t", here.producer[0], 0, "g", waits=True))
    assert "group" not in here.answered
    here.markers_written()
    assert here.answered["group"] == AddOffsetsToTxnResponse()
    assert isinstance(here.answered["of a former epoch"], ProducerFencedError)


def test_who_does_not_say_that_it_waits_and_who_would_hold_up_others_is_told_at_once() -> None:
    here = Here()
    here.submit("old", here.adds(here.producer, waits=False))
    here.submit("two", here.adds(here.producer, here.producer))
    assert isinstance(here.error_of("old"), ConcurrentTransactionsError)
    assert isinstance(here.error_of("two"), ConcurrentTransactionsError)
    here.submit("stranger", here.adds((4711, 0)))
    assert here.error_of("stranger") is not None


def test_only_so_many_wait() -> None:
    here = Here()
    for number in range(OF_ID_MAX + 1):
        here.submit(f"{number}", here.adds(here.producer))
    assert list(here.answered)[-1] == f"{OF_ID_MAX}"
    assert isinstance(here.error_of(f"{OF_ID_MAX}"), ConcurrentTransactionsError)
    here.markers_written()
    assert all(here.error_of(f"{number}") is None for number in range(OF_ID_MAX))


def test_those_that_wait_are_told_when_the_id_has_another_coordinator() -> None:
    here = Here()
    here.submit("next", here.adds(here.producer))
    ((ticket, error),) = here.shard.unloaded()
    assert ticket == "next" and isinstance(error, NotCoordinatorError)
    assert here.shard.unloaded() == []
