"""When the open batch of a partition is closed: at once, never beside another one, or in the pace of a slow link.
What the sender reads while a caller appends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.broker_pace import (
    BUSY,
    REQUESTS_PER_ANSWER,
    SLOW_ANSWER_MS,
    SMALL_REQUEST_BYTES,
    WINDOW_MS,
    BrokerPace,
)
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sequences import PartitionSequences
from penstock.record.builder import build_batch
from penstock.types import ProducerIdAndEpoch, TopicPartition
from tests.support.client_environment import stepped_threads

TP = TopicPartition("t", 0)
DUE_MS = 1_000
ANSWER_MS = 30
NEXT_MS = ANSWER_MS // REQUESTS_PER_ANSWER


def pace(answer_ms: int = ANSWER_MS, sent_ms: int = DUE_MS) -> BrokerPace:
    """The pace of a broker that has answered once, and then got another small request."""
    made = BrokerPace()
    made.on_answer(100, answer_ms, 0)
    made.on_sent(100, sent_ms)
    return made


def queue(*sent_ms: int, answer_ms: int = ANSWER_MS, is_idempotent: bool = True) -> PartitionQueue:
    """A partition with a batch at the broker for each of these times."""
    made = PartitionQueue(TP, 1 << 20, PartitionSequences() if is_idempotent else None)
    made.settle(ProducerIdAndEpoch(7, 0))
    for request, time_ms in enumerate(sent_ms, start=1):
        add(made)
        made.send(made.ready[0], request, time_ms)
    made.pace = pace(answer_ms, max(sent_ms, default=0))
    return made


def add(queue: PartitionQueue) -> None:
    batch = ProducerBatch(TP, 0, 0, stepped_threads())
    batch.set_encoded(build_batch([b"v"], timestamps_ms=0), 1)
    queue.ready.append(batch)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_with_nothing_on_its_way_a_batch_is_closed_when_it_is_due(is_idempotent: bool) -> None:
    assert queue(is_idempotent=is_idempotent).closes_at_ms(DUE_MS, 0) == DUE_MS


def test_on_a_quick_link_it_grows_while_something_is_on_its_way() -> None:
    assert queue(DUE_MS, answer_ms=SLOW_ANSWER_MS - 1).closes_at_ms(DUE_MS, DUE_MS) is None


def test_without_idempotence_it_grows_on_a_slow_link_too() -> None:
    assert queue(DUE_MS, is_idempotent=False).closes_at_ms(DUE_MS, DUE_MS) is None


def test_on_a_slow_link_it_is_closed_a_share_of_the_answers_time_after_the_last_request() -> None:
    assert queue(DUE_MS - NEXT_MS).closes_at_ms(DUE_MS, DUE_MS) == DUE_MS
    assert queue(DUE_MS - NEXT_MS, DUE_MS - 1).closes_at_ms(DUE_MS, DUE_MS) == DUE_MS - 1 + NEXT_MS


def test_the_last_request_may_be_that_of_another_partition() -> None:
    shared = queue(DUE_MS - NEXT_MS)
    assert shared.pace is not None
    shared.pace.on_sent(100, DUE_MS)
    assert shared.closes_at_ms(DUE_MS, DUE_MS) == DUE_MS + NEXT_MS


def test_it_grows_when_no_more_may_be_with_the_broker_or_something_waits_already() -> None:
    assert queue(*[DUE_MS] * 5).closes_at_ms(DUE_MS, DUE_MS) is None
    waiting = queue(DUE_MS)
    add(waiting)
    assert waiting.closes_at_ms(DUE_MS, DUE_MS) is None


def test_nothing_more_goes_out_to_a_broker_that_is_busy() -> None:
    late_ms = int(ANSWER_MS * BUSY)
    assert pace().next_ms(DUE_MS, DUE_MS + late_ms) is not None
    assert pace().next_ms(DUE_MS, DUE_MS + late_ms + 1) is None, "it owes an answer for too long"
    slow = pace()
    slow.on_answer(SMALL_REQUEST_BYTES + 1, late_ms + 1, 0)
    assert slow.next_ms(DUE_MS, DUE_MS) is None, "its last answer took too long"


def test_nothing_more_goes_out_beside_a_large_request() -> None:
    large = pace()
    large.on_sent(SMALL_REQUEST_BYTES + 1, DUE_MS)
    assert large.next_ms(DUE_MS, DUE_MS) is None


def test_the_shortest_answer_to_a_small_request_counts_until_two_windows_are_over() -> None:
    times = BrokerPace()
    assert times.shortest_ms == 0
    for answer_ms in (30, 12, 25):
        times.on_answer(100, answer_ms, 0)
    times.on_answer(SMALL_REQUEST_BYTES + 1, 5, 0)
    assert times.shortest_ms == 12
    times.on_answer(100, 22, WINDOW_MS)
    assert times.shortest_ms == 12
    times.on_answer(100, 24, 2 * WINDOW_MS)
    assert times.shortest_ms == 22


class Shared(deque[ProducerBatch]):
    """A caller may append at any moment; an iteration would then end with an error."""

    def __iter__(self) -> Iterator[ProducerBatch]:
        raise RuntimeError("deque mutated during iteration")


@pytest.mark.parametrize(("in_flight", "ready", "oldest_ms"), [(0, 0, None), (0, 2, 7), (1, 0, 5), (1, 2, 5)])
def test_how_old_the_oldest_batch_is_can_be_asked_while_a_caller_appends(
    in_flight: int, ready: int, oldest_ms: int | None
) -> None:
    asked = queue(*[DUE_MS] * in_flight)
    for batch in asked.in_flight:
        batch.created_ms = 5
    asked.ready = Shared()
    for number in range(ready):
        add(asked)
        asked.ready[number].created_ms = 7 + number
    assert asked.oldest_ms == oldest_ms
