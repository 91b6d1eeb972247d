"""A question about many partitions goes in requests of a bounded size, one after the other, and has one answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.admin import configs, elections, reassignments
from penstock.client.admin.elections import order_elections
from penstock.client.admin.portions import PARTITIONS_MAX, REPLICAS_MAX, portions
from penstock.client.admin.reassignments import alter_reassignments
from penstock.client.admin.topic_changes import TopicChanges
from penstock.errors import ElectionNotNeededError, InvalidPartitionsError, PolicyViolationError
from penstock.messages.api import Api
from penstock.messages.client_apis import ALTER_PARTITION_REASSIGNMENTS, CREATE_PARTITIONS, ELECT_LEADERS
from penstock.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResult,
    ReassignmentResult,
)
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.messages.topics import CreatePartitionsRequest, CreatePartitionsResponse, TopicResult
from penstock.types import TopicPartition

MANY = [TopicPartition("t", number) for number in range(2 * PARTITIONS_MAX + 500)]
SIZES = [PARTITIONS_MAX, PARTITIONS_MAX, 500]


def test_a_portion_has_a_bounded_number_of_partitions_and_of_replicas() -> None:
    assert list(portions([])) == []
    assert [len(portion) for portion in portions(MANY)] == SIZES
    assert [tp for portion in portions(MANY) for tp in portion] == MANY
    wide = REPLICAS_MAX // 4
    assert [len(portion) for portion in portions(range(9), lambda item: wide)] == [4, 4, 1]
    assert [len(portion) for portion in portions(range(2), lambda item: 2 * REPLICAS_MAX)] == [1, 1]


class FakeBroker:
    """Both the cluster and the connection: what it was asked, and in which order."""

    def __init__(self, total: int = 0) -> None:
        self.sizes: list[int] = []
        self.asked: list[object] = []
        self.heard: list[int] = []
        self.fails_at = -1
        self.total = total
        self.any_node = self

    async def ask(self, ask: Callable[[Any, int], Awaitable[Any]], deadline_ms: int) -> Any:
        return await ask(self, 1_000)

    async def wait_heard(self, cluster: object, metadata_offset: int, deadline_ms: int) -> None:
        self.heard.append(metadata_offset)

    def _note(self, size: int) -> None:
        if len(self.sizes) == self.fails_at:
            raise PolicyViolationError("too much")
        self.sizes.append(size)

    async def call(self, api: Api[Any, Any], request: Any, timeout_ms: int) -> Any:
        answers = {
            ALTER_PARTITION_REASSIGNMENTS: self._reassigned,
            ELECT_LEADERS: self._elected,
            CREATE_PARTITIONS: self._created,
        }
        return answers[api](request)

    def _reassigned(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        self._note(len(request.partitions))
        refusals = [PolicyViolationError("no"), *[None] * len(request.partitions)]
        results = (
            ReassignmentResult(p.topic, p.partition, e) for p, e in zip(request.partitions, refusals, strict=False)
        )
        return AlterPartitionReassignmentsResponse(tuple(results), len(self.sizes))

    def _elected(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        named = [(topic, p) for topic, numbers in request.topics or () for p in numbers]
        self.asked.append(None if request.topics is None else len(named))
        self._note(len(named))
        needless = ElectionNotNeededError("led")
        results = (ElectLeadersResult(topic, p, needless if p % 2 else None, 1) for topic, p in named)
        return ElectLeadersResponse(tuple(results), len(self.sizes))

    def _created(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        (asked,) = request.topics
        self.asked.append((asked.total, len(asked.assignment), request.validate_only))
        error = InvalidPartitionsError("at most 9000 are allowed") if asked.total > 9_000 else None
        return CreatePartitionsResponse((TopicResult("t", "id", error, asked.total, 1),), 7)

    async def refresh(self, names: tuple[str, ...], deadline_ms: int) -> SimpleNamespace:
        return SimpleNamespace(topics=await self.list_topics(deadline_ms))

    async def list_topics(self, deadline_ms: int) -> tuple[TopicInfo, ...]:
        partitions = tuple(PartitionInfo(number, 1, 0, 0, (1,), (1,)) for number in range(self.total))
        return (TopicInfo("t", "id", partitions),)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    found = FakeBroker()
    for module in (elections, reassignments):
        monkeypatch.setattr(module, "wait_heard", found.wait_heard)
    return found


def test_moves_are_begun_portion_by_portion_and_told_of_together(broker: FakeBroker) -> None:
    results = asyncio.run(alter_reassignments(cast(Any, broker), dict.fromkeys(MANY, (1, 2, 3)), 0))
    assert broker.sizes == SIZES and broker.heard == [3], "waited for once, up to the last change"
    assert list(results) == MANY
    refused = [tp.partition for tp, error in results.items() if error is not None]
    assert refused == [0, PARTITIONS_MAX, 2 * PARTITIONS_MAX]


def test_a_request_that_fails_says_what_those_before_it_have_done(broker: FakeBroker) -> None:
    broker.fails_at = 1
    with pytest.raises(PolicyViolationError) as raised:
        asyncio.run(alter_reassignments(cast(Any, broker), dict.fromkeys(MANY), 0))
    assert raised.value.__notes__ == ["the requests before this one, for 1000 of 2500 partitions, were answered"]
    broker.fails_at, broker.sizes = 0, []
    with pytest.raises(PolicyViolationError) as raised:
        asyncio.run(alter_reassignments(cast(Any, broker), dict.fromkeys(MANY), 0))
    assert not getattr(raised.value, "__notes__", []), "nothing was done"


def test_leaders_are_elected_portion_by_portion(broker: FakeBroker) -> None:
    results = asyncio.run(order_elections(cast(Any, broker), MANY, False, 0))
    assert broker.sizes == SIZES and broker.heard == [3] and list(results) == MANY


@pytest.mark.parametrize(("total", "asked"), [(PARTITIONS_MAX, [None]), (len(MANY), SIZES)])
def test_those_of_all_partitions_are_named_where_they_are_many(
    broker: FakeBroker, total: int, asked: list[int | None]
) -> None:
    broker.total = total
    results = asyncio.run(order_elections(cast(Any, broker), None, False, 0))
    assert broker.asked == asked
    assert all(result.error is None for result in results.values()), "those that need none are left out"
    assert len(results) == (0 if asked == [None] else len(MANY) / 2)


def added(broker: FakeBroker, first: int, total: int, by_hand: int = 0, *, validate_only: bool = False) -> None:
    """The steps in which a topic with `first` partitions gets `total`."""
    changes = TopicChanges(cast(Any, broker))
    broker.total = first
    work = changes.add_partitions("t", total, ((1,),) * by_hand, 0, validate_only=validate_only)
    with contextlib.suppress(Heard, InvalidPartitionsError):
        asyncio.run(work)


class Heard(Exception):
    """All was asked."""


async def stop(cluster: object, metadata_offset: int, deadline_ms: int) -> None:
    raise Heard


def test_partitions_are_added_portion_by_portion_and_none_where_the_whole_would_be_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(configs, "wait_heard", stop)
    few, many, mine, excess, wrong = (FakeBroker() for _ in range(5))
    added(few, 2, 1_002)
    assert few.asked == [(1_002, 0, False)]
    added(many, 2, 2_502)
    assert many.asked == [(2_502, 0, True), (1_002, 0, False), (2_002, 0, False), (2_502, 0, False)]
    added(mine, 2, 1_503, by_hand=1_501)
    assert mine.asked == [(1_503, 1_501, True), (1_002, 1_000, False), (1_503, 501, False)]
    added(excess, 2, 9_001)
    assert excess.asked == [(9_001, 0, True)]
    added(wrong, 2, 4, by_hand=3)
    assert wrong.asked == [(4, 3, False)], "the broker says what is wrong with it"
