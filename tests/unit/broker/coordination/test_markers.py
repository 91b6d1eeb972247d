"""Promises of the markers of transactions in a led shard: the log takes them first, then the core, then the ticket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.coordination.led_shard import ShardState
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    UnknownServerError,
)
from penstock.record.batch import iter_headers
from penstock.record.markers import Marker
from tests.support.led_shard import ME, OTHER, Stage, turn_of_loop
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
    async def scenario(stage: Stage, told: list[ApiError | None]) -> None:
        stage.put("a", 1)
        stage.shard.write_marker(told.append, MARKER)
        stage.put("b", 2)
        assert stage.cores[-1].markers == [MARKER] and kinds(stage) == [False, True]
        await turn_of_loop()
        assert kinds(stage) == [False, True, False] and not told and not stage.answers
        stage.commit(2)
        assert told == [None] and list(stage.answers) == ["put a=1"]
        stage.commit()
        assert list(stage.answers) == ["put a=1", "put b=2"]

    run(tmp_path, scenario)


def test_a_marker_is_loaded_again(tmp_path: Path) -> None:
    async def scenario(stage: Stage, told: list[ApiError | None]) -> None:
        stage.shard.write_marker(told.append, MARKER)
        stage.shard.close()
        assert isinstance(told[0], ApiError), "nobody knows"
        stage.shard = stage.lead(6)
        stage.shard.write_marker(told.append, MARKER)
        assert isinstance(told[1], CoordinatorLoadInProgressError)
        await stage.loaded()
        assert stage.cores[-1].markers == [MARKER]

    run(tmp_path, scenario)


def test_who_does_not_lead_any_more_writes_no_marker(tmp_path: Path) -> None:
    async def scenario(stage: Stage, told: list[ApiError | None]) -> None:
        stage.another_leads(6)
        stage.shard.write_marker(told.append, MARKER)
        assert isinstance(told[0], NotCoordinatorError) and stage.cores[-1].markers == [] == kinds(stage)

    run(tmp_path, scenario)


def test_a_marker_that_the_log_refuses_changes_nothing(tmp_path: Path) -> None:
    async def scenario(stage: Stage, told: list[ApiError | None]) -> None:
        stage.isr_becomes((ME,), 1)
        stage.shard.write_marker(told.append, MARKER)
        assert isinstance(told[0], NotEnoughReplicasError) and stage.cores[-1].markers == [] == kinds(stage)
        assert stage.shard.state is ShardState.ACTIVE
        stage.isr_becomes((ME, OTHER), 2)
        stage.shard.write_marker(told.append, MARKER)
        stage.commit()
        assert told[1:] == [None]

    run(tmp_path, scenario)


def test_a_core_that_fails_at_a_marker_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage, told: list[ApiError | None]) -> None:
        def fail(marker: Marker) -> None:
            raise ValueError("a defect")

        monkeypatch.setattr(stage.cores[-1], "replay_marker", fail)
        stage.shard.write_marker(told.append, MARKER)
        assert isinstance(told[0], UnknownServerError) and stage.shard.state is ShardState.LOADING
        await stage.loaded()
        assert stage.cores[-1].markers == [MARKER]

    run(tmp_path, scenario)
