"""Promises of a led shard: answers after the commit, one append a tick, and a state that is what the log says."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.coordination.led_shard import ShardState
from broker.coordination.turn import Ticket, Turn
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaStorageError,
    NotCoordinatorError,
    UnknownServerError,
)
from penstock.record.builder import build_batch
from storage.append.append_origin import COORDINATOR
from storage.disk.disk_errors import storage_error
from storage.log_config import LogConfig
from tests.support.led_shard import ME, OTHER, Stage, turn_of_loop, write
from tests.support.partitions import state
from tests.support.virtual_time import run_virtual, virtual_clock

Scenario = Callable[[Stage], Awaitable[None]]


def run(path: Path, scenario: Scenario, **fields: Any) -> None:
    async def main() -> None:
        stage = Stage(path, **fields)
        await stage.loaded()
        await scenario(stage)
        stage.shard.close()

    run_virtual(main())


def test_an_answer_leaves_after_the_commit_and_not_before(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        assert stage.partition.log.log_end_offset == 1 and stage.flushes.asked == 1 and not stage.answers
        stage.commit(0)
        assert not stage.answers, "the follower lacks it"
        stage.commit()
        assert stage.answers == {"put a=1": "written"}

    run(tmp_path, scenario)


def test_what_comes_in_one_tick_is_one_append(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(20):
            stage.put("a", number)
        await turn_of_loop()
        stage.commit()
        assert stage.flushes.asked == 1 and len(stage.answers) == 20
        assert stage.partition.log.log_end_offset == 20 and stage.numbers == {"a": 19}

    run(tmp_path, scenario)


def test_who_may_have_seen_an_uncommitted_record_waits_for_it(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.get("a", "before")
        assert stage.answers == {"before": None}, "nothing to wait for: within the call"
        stage.put("a", 1)
        stage.get("a", "same tick")
        await turn_of_loop()
        stage.get("a", "later tick")
        await turn_of_loop()
        assert list(stage.answers) == ["before"]
        stage.commit()
        assert stage.answers == {"before": None, "put a=1": "written", "same tick": 1, "later tick": 1}

    run(tmp_path, scenario)


def test_the_end_of_a_loaded_log_must_be_committed_before_anybody_is_told_of_it(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.shard.close()
        stage.shard = stage.lead(6)
        await stage.loaded()
        stage.get("a", "after the load")
        await turn_of_loop()
        assert list(stage.answers) == ["put a=1"]
        stage.commit()
        assert stage.answers["after the load"] == 1

    run(tmp_path, scenario)


def test_a_lead_that_is_lost_between_append_and_commit_is_an_error_and_the_log_decides(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("kept", 1)
        await turn_of_loop()
        stage.commit()
        stage.put("kept", 2)
        stage.put("lost", 3)
        await turn_of_loop()
        stage.another_leads(6)
        stage.shard.close()
        for name in ("put kept=2", "put lost=3"):
            assert isinstance(stage.answers[name], CoordinatorNotAvailableError)
            assert not stage.answers[name].nothing_written, "the records may be in the log of the new leader"
        stage.cut(1)
        stage.shard = stage.lead(7)
        await stage.loaded()
        assert stage.numbers == {"kept": 1}

    run(tmp_path, scenario)


def test_a_shard_whose_epoch_is_over_appends_nothing(tmp_path: Path) -> None:
    """The broker leads again, in a newer epoch, before the shard has heard that its lead is over."""

    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        stage.partition.become_leader(state(ME, 7, 1, stage.isr, stage.isr), 0)
        stage.put("b", 1)
        await turn_of_loop()
        assert stage.partition.log.log_end_offset == 0
        assert isinstance(stage.answers["put a=1"], NotCoordinatorError)
        assert isinstance(stage.answers["put b=1"], NotCoordinatorError)

    run(tmp_path, scenario)


def test_without_a_commit_in_time_the_outcome_is_unknown(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await asyncio.sleep(2)
        stage.put("a", 2)
        await asyncio.sleep(2.9)
        assert not stage.answers
        await asyncio.sleep(0.2)
        assert isinstance(stage.answers["put a=1"], CoordinatorNotAvailableError)
        assert "no commit within 5000 ms" in str(stage.answers["put a=1"])
        stage.commit()
        assert stage.answers["put a=2"] == "written" and stage.numbers == {"a": 2}

    run(tmp_path, scenario)


def test_with_too_small_an_isr_reads_go_on_and_writes_change_nothing(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.commit()
        stage.isr_becomes((ME,), 1)
        stage.shard.core.timers.set("t", 0, lambda turn: write(turn, "timer", 1))
        stage.put("a", 2)
        stage.get("a")
        await asyncio.sleep(3)
        assert isinstance(stage.answers["put a=2"], CoordinatorNotAvailableError)
        assert stage.answers["get a"] == 1 and stage.numbers == {"a": 1} and len(stage.cores) == 1
        stage.isr_becomes((ME, OTHER), 2)
        await asyncio.sleep(1)
        assert stage.numbers == {"a": 1, "timer": 1}, "the timer has waited"
        assert stage.partition.log.log_end_offset == 2

    run(tmp_path, scenario)


def test_records_that_the_isr_no_longer_commits_are_answered_at_once(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.isr_becomes((ME,), 1)
        assert isinstance(stage.answers["put a=1"], CoordinatorNotAvailableError)
        stage.get("a")
        await turn_of_loop()
        stage.isr_becomes((ME, OTHER), 2)
        stage.commit()
        assert stage.answers["get a"] == 1, "the record is in the log, and was committed in the end"

    run(tmp_path, scenario)


def test_a_failed_append_throws_the_state_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.commit()

        def fails(*_: object) -> object:
            raise KafkaStorageError("the disk is full")

        stage.ask("waits", lambda turn, ticket: stage.cores[-1].waiting.append(ticket))
        with monkeypatch.context() as patched:
            patched.setattr(stage.logs, "append", fails)
            stage.put("a", 2)
            stage.put("b", 2)
            await turn_of_loop()
        assert stage.shard.state is ShardState.LOADING and len(stage.cores) == 2
        assert all(isinstance(stage.answers[name], NotCoordinatorError) for name in ("put a=2", "put b=2", "waits"))
        stage.get("a", "meanwhile")
        assert isinstance(stage.answers["meanwhile"], CoordinatorLoadInProgressError)
        await stage.loaded()
        assert stage.numbers == {"a": 1}

    run(tmp_path, scenario)


def test_while_the_disk_is_full_what_only_reads_is_answered_and_writes_are_tried_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.commit()
        tried = 0

        def fails(*_: object) -> object:
            nonlocal tried
            tried += 1
            no_room = OSError(errno.ENOSPC, "No space left on device")
            raise storage_error("append", "/data", no_room) from no_room

        with monkeypatch.context() as patched:
            patched.setattr(stage.logs, "append", fails)
            for number in range(120):
                stage.put(f"b{number}", 2)
                await asyncio.sleep(0.5)
                stage.get("a", f"a{number}")
        refusals = [stage.answers[f"put b{number}=2"] for number in range(120)]
        assert all(isinstance(one, ApiError) for one in refusals)
        assert sum("the disk is full: free space" in str(one) for one in refusals) >= 110
        read = sum(stage.answers[f"a{number}"] == 1 for number in range(120))
        assert 5 <= tried <= 10 and read >= 110, (tried, read)
        await asyncio.sleep(10)
        stage.put("a", 3)
        await turn_of_loop()
        stage.commit()
        assert stage.numbers == {"a": 3}

    run(tmp_path, scenario)


def test_a_decision_that_fails_half_way_is_not_in_the_state(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.commit()

        def breaks(turn: Turn, ticket: Ticket) -> None:
            write(turn, "a", 2)
            turn.answer(stage.cores[-1].waiting.pop(0), "as if nothing were wrong")
            raise RuntimeError("a bug")

        def refuses(turn: Turn, ticket: Ticket) -> None:
            raise KafkaStorageError("before it wrote anything")

        stage.ask("waits", lambda turn, ticket: stage.cores[-1].waiting.append(ticket))
        stage.ask("waits longer", lambda turn, ticket: stage.cores[-1].waiting.append(ticket))
        stage.ask("refuses", refuses)
        assert isinstance(stage.answers["refuses"], KafkaStorageError) and len(stage.cores) == 1
        stage.ask("breaks", breaks)
        assert isinstance(stage.answers["breaks"], UnknownServerError)
        assert isinstance(stage.answers["waits"], UnknownServerError), "its answer was of a turn that is not in the log"
        assert isinstance(stage.answers["waits longer"], NotCoordinatorError)
        await stage.loaded()
        assert stage.numbers == {"a": 1} and stage.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_the_end_of_a_lead_answers_everything_that_waits(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.ask("waits", lambda turn, ticket: stage.cores[-1].waiting.append(ticket))
        stage.put("a", 1)
        stage.another_leads(6)
        stage.shard.close()
        assert isinstance(stage.answers["waits"], NotCoordinatorError)
        assert isinstance(stage.answers["put a=1"], NotCoordinatorError), "it was not appended"
        stage.get("a")
        assert isinstance(stage.answers["get a"], NotCoordinatorError)

    run(tmp_path, scenario)


def test_timers_are_due_in_order_by_one_wake_up(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        now_ms, fired = virtual_clock().now_ms(), list[str]()
        timers = stage.shard.core.timers

        def set_timers(turn: Turn, ticket: Ticket) -> None:
            timers.set("late", now_ms + 3_000, lambda turn: fired.append(f"late {turn.now_ms - now_ms}"))
            timers.set("soon", now_ms + 1_000, lambda turn: write(turn, "soon", 1))
            timers.set("moved", now_ms + 500, lambda turn: fired.append("moved"))
            timers.set("moved", now_ms + 4_000, lambda turn: fired.append(f"moved {turn.now_ms - now_ms}"))
            turn.answer(ticket, "set")

        stage.ask("timers", set_timers)
        await asyncio.sleep(1.001)
        assert stage.numbers == {"soon": 1} and stage.partition.log.log_end_offset == 1
        await asyncio.sleep(3)
        assert fired == ["late 3000", "moved 4000"]

    run(tmp_path, scenario)


def test_a_log_of_many_portions_is_loaded_in_steps(tmp_path: Path) -> None:
    """Requests are refused meanwhile, and the loop goes on."""

    async def scenario(stage: Stage) -> None:
        for number in range(3_000):
            stage.put(f"{number}-{'x' * 300}", number)
            if number % 500 == 499:
                await turn_of_loop()
        stage.commit()
        expected, stage.answers = stage.numbers, {}
        stage.shard.close()
        stage.shard = stage.lead(6)
        turns = 0
        while stage.shard.state is ShardState.LOADING:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 12 and stage.numbers == expected and stage.cores[-1] is stage.shard.core
        figures = stage.ports.loader.figures
        assert figures.records == 3_000 and figures.loads == 2

    run(tmp_path, scenario)


async def _foreign(stage: Stage, key: bytes, value: bytes | None) -> None:
    """A record that this release has not written is in the log, and the log is loaded again."""
    batch = build_batch([value], keys=[key], timestamps_ms=0)
    info = stage.logs.append(stage.partition, batch, -1, COORDINATOR)
    stage.logs.when_acked(stage.partition, info, -1, lambda error: None)
    stage.commit()
    stage.shard.close()
    stage.shard = stage.lead(6)
    async with asyncio.timeout(60):
        while stage.shard.state is ShardState.LOADING:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def test_a_record_of_an_unknown_type_is_passed_over(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        await _foreign(stage, b"\x00\x63\x00\x01g", b"\x00\x00")
        assert stage.shard.state is ShardState.ACTIVE and stage.numbers == {"a": 1}
        assert stage.ports.loader.figures.unknown_records == 1

    run(tmp_path, scenario)


def test_a_damaged_record_is_not_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A committed offset that is lost without a word would make a group read again, or skip what it has not read."""

    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        await _foreign(stage, b"\x00\x01\x00\x01g", b"\x00\x03")
        assert stage.shard.state is ShardState.FAILED and stage.numbers == {}
        stage.get("a")
        error = stage.answers["get a"]
        assert isinstance(error, CoordinatorNotAvailableError)
        assert "t-0" in str(error) and "offset 1" in str(error) and "newer release" in str(error)
        assert "have no coordinator" in caplog.text

    run(tmp_path, scenario)


def test_topics_that_change_while_a_shard_loads_are_told_when_it_is_loaded(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Stage(tmp_path)
        stage.shard.topics_changed(frozenset({"t"}), frozenset())
        stage.shard.topics_changed(frozenset({"u"}), frozenset())
        await stage.loaded()
        await asyncio.sleep(0.01)
        assert stage.cores[-1].news == [frozenset({"t", "u"})] and stage.cores[-1].loads == 1
        stage.shard.topics_changed(frozenset({"v"}), frozenset())
        await asyncio.sleep(0.01)
        assert stage.cores[-1].news == [frozenset({"t", "u"}), frozenset({"v"})]
        stage.shard.close()

    run_virtual(main())


def test_a_core_that_cannot_begin_is_a_failed_partition_and_not_a_failed_node(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Stage(tmp_path)

        def breaks() -> object:
            raise RuntimeError("a bug")

        stage.cores[-1].loaded = breaks  # type: ignore[method-assign, assignment]
        async with asyncio.timeout(60):
            while stage.shard.state is ShardState.LOADING:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        stage.get("a")
        assert stage.shard.state is ShardState.FAILED and "a bug" in str(stage.answers["get a"])
        stage.shard.close()

    run_virtual(main())


def test_a_tick_larger_than_a_batch_is_several_batches_in_one_flush(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(50):
            stage.put(f"{number}-{'x' * 90}", number)
        await turn_of_loop()
        stage.commit()
        assert len(stage.answers) == 50 and stage.partition.log.log_end_offset == 50
        assert all(answer == "written" for answer in stage.answers.values())

    run(tmp_path, scenario, log_config=LogConfig(max_message_bytes=1_000, segment_bytes=4_096))


def test_a_limit_below_a_records_size_takes_nothing_out_of_service(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("small", 1)
        stage.put("x" * 500, 2)
        await turn_of_loop()
        stage.commit()
        assert set(stage.answers.values()) == {"written"} and len(stage.answers) == 2
        assert stage.shard.state is ShardState.ACTIVE and len(stage.cores) == 1

    run(tmp_path, scenario, log_config=LogConfig(max_message_bytes=100, segment_bytes=200))


def test_a_disk_that_fails_is_an_error_of_the_coordinator(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put("a", 1)
        await turn_of_loop()
        stage.partition.stop(KafkaStorageError("EIO"))
        assert isinstance(stage.answers["put a=1"], CoordinatorNotAvailableError)
        stage.get("a")
        assert isinstance(stage.answers["get a"], NotCoordinatorError)

    run(tmp_path, scenario)
