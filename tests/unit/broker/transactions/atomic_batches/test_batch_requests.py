"""Requests of atomic batches that cannot be: each is refused with the remedy, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordination.partition_of import partition_of
from broker.transactions.transactional_ids import partition_of_transactional_id
from penstock.errors import ApiError, InvalidRequestError, InvalidTransactionTimeoutError, InvalidTxnStateError
from penstock.messages.transactions.atomic_batches import (
    AbortAtomicBatchRequest,
    BeginAtomicBatchRequest,
    CommitAtomicBatchRequest,
)
from penstock.types import ProducerIdAndEpoch
from tests.support.batches_core import BatchesHere
from tests.support.transaction_core import P0

W = ProducerIdAndEpoch(1, 0)


@pytest.mark.parametrize(
    ("request_", "error", "says"),
    [
        (BeginAtomicBatchRequest("", 0, 1), InvalidRequestError, "has no name"),
        (BeginAtomicBatchRequest("a" * 201, 0, 1), InvalidRequestError, "has 201 characters"),
        (BeginAtomicBatchRequest("a#b", 0, 1), InvalidRequestError, "no '#'"),
        (BeginAtomicBatchRequest("a", -1, 1), InvalidRequestError, "is below 0"),
        (BeginAtomicBatchRequest("a", 0, 1, "r" * 201), InvalidRequestError, "the run has 201 characters"),
        (BeginAtomicBatchRequest("a", 0, 0), InvalidTransactionTimeoutError, "not within 1 and 3600000 ms"),
        (BeginAtomicBatchRequest("a", 0, 3_600_001), InvalidTransactionTimeoutError, r"4 x transaction.max.timeout.ms"),
        (CommitAtomicBatchRequest("", 0), InvalidRequestError, "has no name"),
        (CommitAtomicBatchRequest("a#1", 0), InvalidRequestError, "no '#'"),
        (CommitAtomicBatchRequest("a", -1), InvalidRequestError, "is below 0"),
        (CommitAtomicBatchRequest("a", 0, run="r" * 201), InvalidRequestError, "the run has 201"),
        (CommitAtomicBatchRequest("a", 0, records=-2), InvalidRequestError, "has no -2 records"),
        (CommitAtomicBatchRequest("a", 0, (W, W)), InvalidRequestError, "named twice"),
        (CommitAtomicBatchRequest("a", 0, (W,)), InvalidTxnStateError, "is not open"),
        (CommitAtomicBatchRequest("app", 3, (W,)), InvalidTxnStateError, "no open writer of version 3"),
        (AbortAtomicBatchRequest("", 0), InvalidRequestError, "has no name"),
        (AbortAtomicBatchRequest("a#", 0), InvalidRequestError, "no '#'"),
        (AbortAtomicBatchRequest("a", -3), InvalidRequestError, "is below -2"),
        (AbortAtomicBatchRequest("a", 3, writers=(W,)), InvalidRequestError, "writers go with version -2"),
        (AbortAtomicBatchRequest("a", -1, writers=(W,)), InvalidRequestError, "writers go with version -2"),
        (CommitAtomicBatchRequest("a", 0, checksum=-1), InvalidRequestError, "the checksum -1"),
        (AbortAtomicBatchRequest("a", 0, "r" * 201), InvalidRequestError, "the run has 201"),
    ],
)
def test_a_request_that_cannot_be_is_refused(request_: Any, error: type[ApiError], says: str) -> None:
    here = BatchesHere()
    writer, log = here.begun(3, P0), len(here.log)
    with pytest.raises(error, match=says):
        here.ask(request_)
    assert len(here.log) == log and here.states(writer) == ["Ongoing"]


@pytest.mark.parametrize("application", ["a", "a:b", "penstock.batch:x", "ä" * 50])
def test_the_writers_of_an_application_are_where_it_is(application: str) -> None:
    own = f"penstock.batch:{application}"
    for partitions in (1, 7, 50):
        places = {partition_of_transactional_id(name, partitions) for name in (own, f"{own}#0", f"{own}#98765")}
        assert places == {partition_of(own, partitions)}


def test_other_ids_are_where_they_are_in_kafka() -> None:
    for name in ("orders", "orders#1", "penstock.batc", "#", "x" * 255):
        assert partition_of_transactional_id(name, 50) == partition_of(name, 50)
