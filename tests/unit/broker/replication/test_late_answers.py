"""A fetch that waited is answered whatever its late answer meets, and so is everybody behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.apis.fetch_sessions.fetch_session import ANSWER_BYTES_MIN, ANSWER_COPIES, FetchSession, SessionMemory
from broker.network.budget_shares import ABOVE_SHARE
from broker.network.failed_requests import FailedRequests
from broker.network.memory_budget import MemoryBudget
from broker.network.request_channel import Request
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from penstock.clock import ManualClock
from penstock.errors import InvariantViolation, UnknownServerError
from penstock.messages.fetch import FetchPartition, FetchRequest
from penstock.types import TopicPartition
from tests.support.machine import NOW_NS
from tests.support.memory import unlimited
from tests.support.partitions import PARTITION, TOPIC_ID, batch, flush, make_partition, state
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER
from tests.support.stepped_io import SteppedIo
from tests.support.virtual_time import run_virtual

WAIT_MS = 500
BUG = KeyError("what nobody expects")
BROKEN = InvariantViolation("two leaders")


class Stage:
    """A stream's session over one partition whose look-up can be made to fail."""

    def __init__(self, path: Path, memory: SessionMemory) -> None:
        self.bug: Exception | None = None
        self.fatal: list[BaseException] = []
        self.answered: list[Request] = []
        self.partition = make_partition(path)
        self.partition.become_leader(state(isr=(1,)), 0)
        fail = FailedRequests(self.fatal.append).fail
        self.session = FetchSession(
            self._get,
            ManualClock(),
            1 << 20,
            lambda *_: None,
            memory,
            fail,
            SteppedIo(),
            MoveThrottle(),
            leaders_alone(),
        )

    def _get(self, key: TopicPartition, topic_id: str) -> Partition:
        if self.bug is not None:
            raise self.bug
        return self.partition

    def response_ready(self, request: Request) -> None:
        self.answered.append(request)

    def ask(self) -> Request:
        body = FetchRequest(-1, -1, WAIT_MS, 1, 1 << 20, [FetchPartition(PARTITION, TOPIC_ID, 0, 5, -1)], [])
        request = Request("Fetch", body, self, CALLER, NOW_NS)
        self.session.handle(request, body)
        return request

    def produce(self) -> None:
        self.partition.append_as_leader(batch(), -1, 0, 1_700_000_000_000)
        flush(self.partition)


@pytest.mark.parametrize("wakes", [True, False], ids=["woken by a record", "its time is up"])
@pytest.mark.parametrize("bug", [BUG, BROKEN], ids=["a bug", "an invariant"])
def test_a_late_answer_that_meets_a_bug_is_an_unknown_server_error(tmp_path: Path, bug: Exception, wakes: bool) -> None:
    async def scenario() -> None:
        at = Stage(tmp_path, unlimited())
        request = at.ask()
        at.session.partition_changed(PARTITION, False)
        at.bug = bug
        if wakes:
            at.produce()
        await asyncio.sleep(0 if wakes else 2 * WAIT_MS / 1000)
        await asyncio.sleep(0)
        assert at.answered == [request] and isinstance(request.error, UnknownServerError)
        assert at.fatal == ([bug] if bug is BROKEN else []), "what holds for the handlers holds here"
        at.bug = None
        at.produce()
        assert at.ask().error is None, "the session goes on"
        await asyncio.sleep(2 * WAIT_MS / 1000)
        assert len(at.answered) == 2
        at.session.close()

    run_virtual(scenario())


def test_requests_that_waited_for_room_are_all_answered_though_the_first_meets_a_bug(tmp_path: Path) -> None:
    async def scenario() -> None:
        answers = MemoryBudget(ABOVE_SHARE * ANSWER_COPIES * ANSWER_BYTES_MIN, 1)
        at = Stage(tmp_path, SessionMemory(answers.open("a"), MemoryBudget(1 << 30, 1).open("a")))
        taken = answers.open("b").take(answers.statistics().bytes_max)
        waiting = [at.ask(), at.ask()]
        at.bug = BUG
        taken.release()
        assert at.answered == waiting
        assert all(isinstance(request.error, UnknownServerError) for request in waiting)
        assert answers.statistics().used_bytes == 0
        at.session.close()

    run_virtual(scenario())
