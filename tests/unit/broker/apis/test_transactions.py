"""Promises of the handlers of transactions: every API of the page has one, and each coordinator gets its requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis import groups, init_producer_id
from broker.apis.api_parts import ApiParts
from broker.apis.router import Handle
from broker.apis.transactions import SERVED
from broker.network.request_channel import Request
from penstock.errors import CoordinatorNotAvailableError, InvalidRequestError
from penstock.messages.api import Api
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorRequest
from penstock.messages.produce import InitProducerIdRequest
from penstock.messages.transactions import transaction_apis
from penstock.messages.transactions.atomic_batches import (
    AbortAtomicBatchRequest,
    BeginAtomicBatchRequest,
    CommitAtomicBatchRequest,
)
from penstock.messages.transactions.listing import DescribeTransactionsRequest, ListTransactionsRequest
from penstock.messages.transactions.producers import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

ROWS = [row for row in vars(transaction_apis).values() if isinstance(row, Api)]


class Heard:
    """Both coordinators."""

    def __init__(self, name: str, heard: list[tuple[str, ...]]) -> None:
        self._name, self._heard = name, heard

    def find(self, request: Request, body: Any) -> None:
        self._heard.append((self._name, "find"))

    def submit(self, request: Request, key: str, body: Any) -> None:
        self._heard.append((self._name, key))

    def submit_each(self, request: Request, body: Any) -> None:
        self._heard.append((self._name, "each"))

    def partition_of(self, group_id: str) -> int:
        if group_id == "none yet":
            raise CoordinatorNotAvailableError("its topic is being made")
        return 0


def handlers(heard: list[tuple[str, ...]]) -> dict[str, Handle]:
    parts = SimpleNamespace(
        groups=Heard("groups", heard),
        transactions=Heard("transactions", heard),
        request_producer_id=lambda on_id: heard.append(("ids", "")),
        durability=None,
        traffic=None,
        stamps=None,
        hosted=None,
        audit_request=None,
    )
    rows = (*SERVED, *groups.SERVED, *init_producer_id.SERVED)
    return {row.name: row.handler(cast(ApiParts, parts)) for row in rows}


def test_every_api_of_transactions_has_a_handler() -> None:
    assert {row.name for row in ROWS} <= set(handlers([]))


@pytest.mark.parametrize(
    ("api", "body", "goes"),
    [
        ("FindCoordinator", FindCoordinatorRequest(("g",)), ("groups", "find")),
        ("FindCoordinator", FindCoordinatorRequest(("t",), CoordinatorType.TRANSACTION), ("transactions", "find")),
        ("InitProducerId", InitProducerIdRequest(), ("ids", "")),
        ("InitProducerId", InitProducerIdRequest("t", 60_000), ("transactions", "t")),
        ("AddPartitionsToTxn", AddPartitionsToTxnRequest(()), ("transactions", "each")),
        ("AddOffsetsToTxn", AddOffsetsToTxnRequest("t", 1, 0, "g"), ("transactions", "t")),
        ("TxnOffsetCommit", TxnOffsetCommitRequest("t", "g", 1, 0, ()), ("groups", "g")),
        ("EndTxn", EndTxnRequest("t", 1, 0, True), ("transactions", "t")),
        ("BeginAtomicBatch", BeginAtomicBatchRequest("a", 0, 1), ("transactions", "penstock.batch:a")),
        ("CommitAtomicBatch", CommitAtomicBatchRequest("a", 0), ("transactions", "penstock.batch:a")),
        ("AbortAtomicBatch", AbortAtomicBatchRequest("a", 0), ("transactions", "penstock.batch:a")),
        ("DescribeTransactions", DescribeTransactionsRequest(("t",)), ("transactions", "each")),
        ("ListTransactions", ListTransactionsRequest(), ("transactions", "each")),
    ],
)
def test_each_request_goes_to_its_coordinator(api: str, body: Any, goes: tuple[str, str]) -> None:
    heard: list[tuple[str, ...]] = []
    handlers(heard)[api](Request(api, body, Sink(), CALLER, NOW_NS), body)
    assert heard == [goes]


@pytest.mark.parametrize("api", ["InitProducerId", "AddOffsetsToTxn", "EndTxn"])
def test_an_empty_transactional_id_is_an_invalid_request(api: str) -> None:
    heard: list[tuple[str, ...]] = []
    body = InitProducerIdRequest("", 60_000)
    with pytest.raises(InvalidRequestError, match=f"{api}: the transactional id is empty"):
        handlers(heard)[api](Request(api, body, Sink(), CALLER, NOW_NS), body)
    assert heard == []


@pytest.mark.parametrize("application", ["", "a#1", "a" * 201])
def test_no_coordinator_is_asked_of_an_application_that_cannot_be(application: str) -> None:
    heard: list[tuple[str, ...]] = []
    for name, body in (
        ("BeginAtomicBatch", BeginAtomicBatchRequest(application, 0, 1)),
        ("CommitAtomicBatch", CommitAtomicBatchRequest(application, 0)),
        ("AbortAtomicBatch", AbortAtomicBatchRequest(application, 0)),
    ):
        with pytest.raises(InvalidRequestError):
            handlers(heard)[name](Request(name, body, Sink(), CALLER, NOW_NS), body)
    assert heard == []


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize(("producer_id", "epoch"), [(7, -1), (-1, 7)])
def test_a_producer_that_goes_on_names_both_its_id_and_its_epoch(
    transactional_id: str | None, producer_id: int, epoch: int
) -> None:
    heard: list[tuple[str, ...]] = []
    body = InitProducerIdRequest(transactional_id, 60_000, producer_id, epoch)
    with pytest.raises(InvalidRequestError, match="names its id and its epoch"):
        handlers(heard)["InitProducerId"](Request("InitProducerId", body, Sink(), CALLER, NOW_NS), body)
    assert heard == []


def test_a_group_is_added_when_its_topic_is_there() -> None:
    """It is made for the first one: nobody else may ask for it."""
    heard: list[tuple[str, ...]] = []
    body = AddOffsetsToTxnRequest("t", 1, 0, "none yet")
    with pytest.raises(CoordinatorNotAvailableError):
        handlers(heard)["AddOffsetsToTxn"](Request("AddOffsetsToTxn", body, Sink(), CALLER, NOW_NS), body)
    assert heard == []
