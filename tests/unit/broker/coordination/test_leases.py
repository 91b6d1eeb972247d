"""Promises of a shard whose broker may be deposed: it tells nothing that it knows, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.coordination.joined_answers import JoinedList
from broker.coordination.led_shard import ShardState
from broker.coordination.turn import Ticket, Turn
from penstock.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    NotCoordinatorError,
)
from penstock.record.markers import Marker
from tests.support.led_shard import Stage, turn_of_loop, write
from tests.support.virtual_time import run_virtual

Scenario = Callable[[Stage], Awaitable[None]]


def run(path: Path, scenario: Scenario, *, isr: tuple[int, ...] = (1, 2)) -> None:
    async def main() -> None:
        stage = Stage(path, isr=isr)
        await stage.loaded()
        await scenario(stage)
        stage.shard.close()

    run_virtual(main())


def test_without_a_lease_reads_and_writes_are_told_to_look_for_another_coordinator(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.holds_lease = False
        stage.get("a")
        stage.put("a", 1)
        await turn_of_loop()
        assert isinstance(stage.answers["get a"], NotCoordinatorError)
        assert isinstance(stage.answers["put a=1"], NotCoordinatorError)
        assert stage.numbers == {} and stage.partition.log.log_end_offset == 0

    run(tmp_path, scenario)


def test_a_lease_that_ends_during_the_work_is_noticed_before_the_answer_leaves(tmp_path: Path) -> None:
    """As after a SIGSTOP between the two."""

    async def scenario(stage: Stage) -> None:
        def read_slowly(turn: Turn, ticket: Ticket) -> None:
            turn.answer(ticket, stage.numbers.get("a"))
            stage.holds_lease = False

        stage.ask("slow", read_slowly)
        assert isinstance(stage.answers["slow"], NotCoordinatorError)

    run(tmp_path, scenario)


def test_a_lease_that_ends_before_the_commit_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.holds_lease = False
        stage.commit()
        assert isinstance(stage.answers["put a=1"], CoordinatorNotAvailableError)
        assert not stage.answers["put a=1"].nothing_written, "the record is in the log"

    run(tmp_path, scenario)


def test_an_error_that_was_decided_on_old_state_is_not_told(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        def refuse(turn: Turn, ticket: Ticket) -> None:
            stage.holds_lease = False
            raise InvalidGroupIdError("as far as is known here")

        stage.ask("refused", refuse)
        assert isinstance(stage.answers["refused"], NotCoordinatorError)

    run(tmp_path, scenario)


@pytest.mark.parametrize("ends", ["another leads", "no commit in time"])
def test_an_error_that_was_decided_on_what_is_never_committed_is_not_told(tmp_path: Path, ends: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()

        def refuse(turn: Turn, ticket: Ticket) -> None:
            raise InvalidGroupIdError(f"a is {stage.numbers['a']}")

        stage.ask("refused", refuse)
        await turn_of_loop()
        if ends == "another leads":
            stage.another_leads(6)
            stage.shard.close()
        else:
            await asyncio.sleep(60)
        assert isinstance(stage.answers["refused"], CoordinatorNotAvailableError)

    run(tmp_path, scenario)


def test_a_shard_that_loads_does_not_keep_clients_waiting_where_it_may_be_deposed(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.shard.close()
        stage.shard = stage.lead(6)
        assert stage.shard.state is ShardState.LOADING
        stage.get("a", "loading")
        stage.holds_lease = False
        stage.get("a", "deposed")
        assert isinstance(stage.answers["loading"], CoordinatorLoadInProgressError)
        assert isinstance(stage.answers["deposed"], NotCoordinatorError)
        stage.holds_lease = True
        await stage.loaded()

    run(tmp_path, scenario)


def test_timers_and_news_wait_for_the_lease_and_go_on_with_it(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.get("a", "sets the timer")
        stage.shard.core.timers.set("t", 0, lambda turn: write(turn, "timer", 1))
        stage.holds_lease = False
        stage.shard.topics_changed(frozenset({"t"}), frozenset())
        stage.get("a", "arms")
        await asyncio.sleep(3)
        assert stage.numbers == {} and stage.cores[-1].news == []
        stage.holds_lease = True
        await asyncio.sleep(1)
        assert stage.numbers == {"timer": 1} and stage.cores[-1].news == [frozenset({"t"})]
        stage.commit()
        stage.get("timer")
        assert stage.answers["get timer"] == 1

    run(tmp_path, scenario)


def test_a_lease_that_ends_among_timers_that_are_due_loses_none(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        def ends_the_lease(turn: Turn) -> None:
            stage.holds_lease = False

        stage.shard.core.timers.set("first", 0, ends_the_lease)
        stage.shard.core.timers.set("second", 0, lambda turn: write(turn, "second", 1))
        stage.get("a", "arms")
        await asyncio.sleep(3)
        assert not stage.holds_lease and stage.numbers == {}
        stage.holds_lease = True
        await asyncio.sleep(1)
        assert stage.numbers == {"second": 1}

    run(tmp_path, scenario)


def test_the_end_of_a_transaction_is_told_again_to_whoever_leads(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        heard: list[object] = []
        stage.holds_lease = False
        stage.shard.write_marker(heard.append, Marker(7, 0, True, 1), 2)
        assert [type(one) for one in heard] == [NotCoordinatorError] and stage.cores[-1].markers == []

    run(tmp_path, scenario)


def test_a_list_of_a_broker_that_may_be_deposed_is_an_error_that_clients_of_lists_know() -> None:
    answers: list[object] = []
    joined = JoinedList(2, list, answers.append)
    joined(["a"])
    joined(NotCoordinatorError("may be deposed"))
    assert [type(one) for one in answers] == [CoordinatorNotAvailableError]
