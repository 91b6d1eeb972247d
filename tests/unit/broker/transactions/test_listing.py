"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidRegularExpressionError, InvalidRequestError, TransactionalIdNotFoundError
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionDescription,
)
from tests.support.transaction_core import P0, P1, TIMEOUT_MS, TransactionsHere


def some() -> TransactionsHere:
    """`open` is open for a second, `idle` and `done` are not."""
    here = TransactionsHere()
    here.init("idle")
    done = here.init("done")
    here.add(done, name="done")
    here.end(done, name="done")
    here.markers_written()
    here.add(here.init("open"), P1, P0, name="open")
    here.wait(1_000)
    return here


def listed(here: TransactionsHere, **filters: object) -> set[str]:
    answer: ListTransactionsResponse = here.ask(ListTransactionsRequest(**filters))  # type: ignore[arg-type]
    return {one.transactional_id for one in answer.transactions}


def test_transactions_are_described_in_the_order_asked() -> None:
    here = some()
    answer = here.ask(DescribeTransactionsRequest(("open", "nope", "", "done", "open")))
    open_, nope, empty, done, again = answer.transactions
    assert (
        open_
        == again
        == TransactionDescription("open", None, "Ongoing", TIMEOUT_MS, here.wall_ms - 1_000, 1002, 0, (P0, P1))
    )
    assert isinstance(nope.error, TransactionalIdNotFoundError)
    assert isinstance(empty.error, InvalidRequestError)
    assert (done.state, done.start_ms, done.producer_epoch, done.partitions) == ("CompleteCommit", -1, 1, ())


def test_lists_are_filtered() -> None:
    here = some()
    assert listed(here) == {"idle", "done", "open"}
    assert listed(here, states=("Ongoing", "Empty")) == {"open", "idle"}
    assert listed(here, producer_ids=(1001, 5)) == {"done"}
    assert listed(here, producer_ids=(-5,)) == set()
    assert listed(here, duration_ms=999) == {"open"}
    assert listed(here, duration_ms=1_000) == set()
    assert listed(here, duration_ms=-5) == {"idle", "done", "open"}
    assert listed(here, pattern=".*e") == {"done", "idle"}
    assert listed(here, pattern="o") == set()


def test_states_that_are_none_are_named_and_let_nothing_through() -> None:
    answer = some().ask(ListTransactionsRequest(states=("nope", "ongoing", "nope")))
    assert answer == ListTransactionsResponse((), ("nope", "ongoing"))


@pytest.mark.parametrize("pattern", ["((", "(?=a)b", "x" * 1_001])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        listed(some(), pattern=pattern)
