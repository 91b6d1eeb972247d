"""Promises of the markers of transactions in a led shard: the log takes them first, then the core, then the ticket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.coordination.led_shard import ShardState
from broker.coordination.record_log import TxnProducer
from broker.coordination.turn import Ticket, Turn
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    TransactionCoordinatorFencedError,
    UnknownServerError,
)
from penstock.record.batch import iter_headers
from penstock.record.markers import Marker
from tests.support.led_shard import ME, OTHER, Stage, turn_of_loop, write
from tests.support.virtual_time import run_virtual

MARKER = Marker(7, 0, True, 3)
Scenario = Callable[[Stage, list[ApiError | None]], Awaitable[None]]


def run(path: Path, scenario: Scenario, **fields: Any) -> None:
    async def main() -> None:
        stage = Stage(path, **fields)
        await stage.loaded()
        await scenario(stage, [])
        stage.shard.close()

    run_virtual(main())


def kinds(stage: Stage) -> list[bool]:
    """True for each batch of the log that is a control batch."""
    records = stage.partition.read(0, 1 << 20, is_replica=True).records
    return [header.is_control for _, header in iter_headers(records)]


def test_a_marker_comes_after_all_that_was_decided_and_is_told_when_it_is_committed(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        stage.put("a", 1)
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        stage.put("b", 2)
        assert stage.cores[-1].markers == [MARKER] and kinds(stage) == [False, True]
        await turn_of_loop()
        assert kinds(stage) == [False, True, False] and not outcomes and not stage.answers
        stage.commit(2)
        assert outcomes == [None] and list(stage.answers) == ["put a=1"]
        stage.commit()
        assert list(stage.answers) == ["put a=1", "put b=2"]

    run(tmp_path, scenario)


def test_a_marker_is_loaded_again(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        stage.shard.close()
        assert isinstance(outcomes[0], ApiError), "nobody knows"
        stage.shard = stage.lead(6)
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        assert isinstance(outcomes[1], CoordinatorLoadInProgressError)
        await stage.loaded()
        assert stage.cores[-1].markers == [MARKER]

    run(tmp_path, scenario)


def test_who_does_not_lead_any_more_writes_no_marker(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        stage.another_leads(6)
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        assert isinstance(outcomes[0], NotCoordinatorError) and stage.cores[-1].markers == [] == kinds(stage)

    run(tmp_path, scenario)


def test_a_marker_that_the_log_refuses_changes_nothing(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        stage.isr_becomes((ME,), 1)
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        assert isinstance(outcomes[0], NotEnoughReplicasError) and stage.cores[-1].markers == [] == kinds(stage)
        assert stage.shard.state is ShardState.ACTIVE
        stage.isr_becomes((ME, OTHER), 2)
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        stage.commit()
        assert outcomes[1:] == [None]

    run(tmp_path, scenario)


P, LATER = TxnProducer(7, 0), TxnProducer(7, 1)


def pend(stage: Stage, name: str, producer: TxnProducer) -> None:
    def request(turn: Turn, ticket: Ticket) -> None:
        turn.must_take(producer)
        write(turn, name, 1, producer)
        turn.answer(ticket, "written")

    stage.ask(name, request)


def test_a_transactions_records_are_known_before_and_after_their_append(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        pend(stage, "a", P)
        assert stage.shard.log.is_open(P) and not stage.shard.log.is_open(LATER)
        pend(stage, "later", LATER)
        await turn_of_loop()
        assert stage.shard.log.is_open(P) and stage.partition.log.transactions.is_open(7, 0)
        pend(stage, "later, too", LATER)
        stage.shard.write_marker(outcomes.append, Marker(7, 1, True, 3), 2)
        pend(stage, "before", P)
        pend(stage, "next", LATER)
        pend(stage, "before, too", P)
        await turn_of_loop()
        stage.commit()
        answers = stage.answers.items()
        assert {name: answer if isinstance(answer, str) else type(answer) for name, answer in answers} == {
            "a": "written", "later": InvalidTxnStateError, "later, too": InvalidTxnStateError,
            "before": InvalidProducerEpochError, "next": "written", "before, too": InvalidProducerEpochError,
        }  # fmt: skip
        assert outcomes == [None] and stage.shard.state is ShardState.ACTIVE and len(stage.cores) == 1

    run(tmp_path, scenario)


def test_what_was_given_up_before_its_append_leaves_no_epoch_behind(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        pend(stage, "a", LATER)
        stage.shard.close()
        stage.shard = stage.lead(6)
        await stage.loaded()
        pend(stage, "b", P)
        await turn_of_loop()
        assert stage.partition.log.transactions.is_open(7, 0)

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_that_is_there_is_not_written_again_and_told_when_it_is_committed(
    tmp_path: Path, version: int
) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        pend(stage, "a", P)
        marker = Marker(7, version - 1, True, 3)
        guard = stage.partition.guards.set(7)
        stage.shard.write_marker(outcomes.append, marker, version)
        assert not guard.stands
        guard = stage.partition.guards.set(7)
        stage.shard.write_marker(outcomes.append, marker, version)
        assert kinds(stage) == [False, True] and stage.cores[-1].markers == [marker] and not outcomes
        assert guard.stands is (version == 2), "with version 1 it may be another transaction's, with nothing here"
        stage.commit()
        assert outcomes == [None, None]
        stage.shard.write_marker(outcomes.append, marker, version)
        assert outcomes == [None] * 3

    run(tmp_path, scenario)


def test_a_marker_of_an_earlier_coordinator_is_refused(tmp_path: Path) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        stage.shard.write_marker(outcomes.append, Marker(7, 1, False, 3), 2)
        pend(stage, "a", LATER)
        stage.shard.write_marker(outcomes.append, Marker(7, 1, True, 2), 2)
        stage.commit()
        refused = TransactionCoordinatorFencedError
        assert [type(one) for one in outcomes] == [refused, type(None)] and len(stage.cores[-1].markers) == 1
        assert stage.shard.log.is_open(LATER)

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_of_an_earlier_transaction_ends_nothing_and_counts_as_written(tmp_path: Path, version: int) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        stage.shard.write_marker(outcomes.append, Marker(7, 1, False, 3), 2)
        pend(stage, "a", LATER)
        stage.shard.write_marker(outcomes.append, Marker(7, 0, True, 3), version)
        assert not outcomes, "what the log is past with is not committed yet"
        stage.commit()
        assert outcomes == [None, None] and len(stage.cores[-1].markers) == 1
        assert stage.shard.log.is_open(LATER)

    run(tmp_path, scenario)


def test_a_core_that_fails_at_a_marker_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage, outcomes: list[ApiError | None]) -> None:
        def fail(marker: Marker) -> None:
            raise ValueError("a defect")

        monkeypatch.setattr(stage.cores[-1], "replay_marker", fail)
        stage.shard.write_marker(outcomes.append, MARKER, 1)
        assert isinstance(outcomes[0], UnknownServerError) and stage.shard.state is ShardState.LOADING
        await stage.loaded()
        assert stage.cores[-1].markers == [MARKER]

    run(tmp_path, scenario)
