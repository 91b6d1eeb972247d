"""A poll that is interrupted at any instruction makes no change twice and calls nothing twice; the next one ends it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import pytest

from penstock import TopicPartition
from penstock.client.background import LoopThread
from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.consumer.groups.steps import CommittedPlace, RebalanceListener, StepKind
from penstock.client.consumer.groups.subscription import GroupSubscription, Mode
from penstock.client.consumer.groups.turns import Turns
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatResponse, TopicIdPartitions
from tests.support.client_environment import nothing, still_environment
from tests.unit.client.test_interruptions import AT_SIGNALS, interrupted

TP = TopicPartition("t", 0)


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    found = LoopThread()
    yield found
    found.stop()


def assigned_core() -> ConsumerCore:
    """A member to which a partition was just given."""
    core = ConsumerCore("h:1", {"group_id": "g", "enable_auto_commit": False}, still_environment(), nothing)
    core.fetcher._closed = True  # nothing is asked of brokers
    group = core.group
    assert group is not None
    group.mode = Mode.SUBSCRIBED
    group.member.subscribe(GroupSubscription(("t",)), 0)
    assign(core, (TopicIdPartitions("id", (0,), "t"),))
    group.member.reconciliation.learn_places({TP: CommittedPlace(5)})
    return core


def assign(core: ConsumerCore, assignment: tuple[TopicIdPartitions, ...]) -> None:
    group = core.group
    assert group is not None and group.member.heartbeat(1 << 40) is not None
    group.member.on_answer(ConsumerGroupHeartbeatResponse("m", 1, 1_000, assignment), 0)
    group.wants_user = True


@pytest.mark.parametrize("kind", [StepKind.ASSIGN, StepKind.REVOKE])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_an_interrupted_turn_is_ended_by_the_next_one(kind: StepKind, loop_thread: LoopThread) -> None:
    def run(call: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **more: Any) -> Any:
        return loop_thread.run(call(*args, **more))

    def poll(turns: Turns) -> None:
        try:
            turns.begin()
            turns.take(run)
        finally:
            turns.end()

    for moment in count():
        core = assigned_core()
        turns = Turns(core)
        calls: list[list[TopicPartition]] = []
        if kind is StepKind.REVOKE:
            assert turns.take(run)
            assign(core, ())
        turns.listener = RebalanceListener(calls.append, calls.append)
        was_interrupted = interrupted(lambda: poll(turns), moment, AT_SIGNALS)  # noqa: B023
        poll(turns)
        group = core.group
        assert group is not None
        assert len(calls) <= 1, f"interrupted before instruction {moment}"
        assert list(core.positions.states) == ([TP] if kind is StepKind.ASSIGN else [])
        assert list(group.member.reconciliation.owned) == list(core.positions.states)
        assert not group.wants_user and not turns.in_callback and not group.heartbeats.in_poll
        if not was_interrupted:
            assert moment > 20 and calls == [[TP]]
            break
