"""A raw range gives every record once, whatever becomes of streams and leaders, and never waits longer than it may."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.errors import NetworkError, TimedOutError, TopicRecreatedError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from tests.support.scripted_fetch import HANGS, ScriptedCluster, answer_of, batch_at, raw_fetch
from tests.support.virtual_time import VirtualTimeLoop, run_virtual

END = 50


async def offsets_of(cluster: ScriptedCluster, to_offset: int = END, **options: Any) -> list[int]:
    found: list[int] = []
    async for buffer in raw_fetch(cluster, to_offset, **options).buffers():
        found += read_columns(buffer.records, from_offset=buffer.from_offset, to_offset=to_offset).offsets
        await asyncio.sleep(0)  # the reader is busy, and the loop goes on
    return found


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("what", ["write", "read"])
def test_nothing_is_skipped_when_a_stream_ends_at_any_step(what: str, number: int) -> None:
    cluster = ScriptedCluster(faults={(what, number): NetworkError("the broker closed the stream")})

    assert run_virtual(offsets_of(cluster)) == list(range(END))
    assert cluster.refreshes >= 1


def test_a_batch_that_was_stretched_between_two_fetches_gives_no_record_twice() -> None:
    def cleaned_meanwhile(call: FetchRequest) -> FetchResponse:
        offset = call.partitions[0].fetch_offset
        if offset == 0:
            return answer_of(call, batch_at(0), 0)
        deltas = [0, 1, 2, 19]  # one batch of 20 offsets in place of two: it begins below what is asked for
        values = [b"%d" % delta for delta in deltas]
        stretched = build_batch(values, timestamps_ms=[0] * 4, offset_deltas=deltas, last_offset_delta=19)
        return answer_of(call, stretched, offset)

    assert run_virtual(offsets_of(ScriptedCluster(cleaned_meanwhile), to_offset=20)) == [*range(10), 19]


def each_step_in_a_task_of_its_own(work: Any) -> tuple[list[int], BaseException | None]:
    """As the plain Consumer drives a range: one task for each buffer."""
    loop = VirtualTimeLoop()
    found: list[int] = []

    async def step() -> Any:
        return await anext(work, None)

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(asyncio.wait_for(coroutine, 60))

    try:
        while (buffer := run(step())) is not None:
            found.append(buffer.next_offset)
    except Exception as error:
        return found, error
    finally:
        loop.run_until_complete(work.aclose())
        loop.close()
    return found, None


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_time_limit_holds_for_every_buffer(number: int) -> None:
    cluster = ScriptedCluster(faults={("read", number): HANGS})
    found, error = each_step_in_a_task_of_its_own(raw_fetch(cluster, END, request_timeout_ms=30_000).buffers())

    assert len(found) == number - 1
    assert isinstance(error, TimedOutError) and f"no records from offset {10 * (number - 1)} on" in str(error)


def test_the_callers_own_time_does_not_count() -> None:
    async def scenario() -> list[int]:
        found = []
        fetch = raw_fetch(ScriptedCluster(), END, request_timeout_ms=20_000, max_partition_fetch_bytes=1)
        async for buffer in fetch.buffers():
            found.append(buffer.next_offset)
            await asyncio.sleep(30)
        return found

    assert run_virtual(scenario()) == [10, 20, 30, 40, 50]


def test_a_time_out_names_the_last_error() -> None:
    cluster = ScriptedCluster(faults={("write", n): NetworkError("nobody there") for n in range(1, 1_000)})
    with pytest.raises(TimedOutError, match="the last error: nobody there"):
        run_virtual(offsets_of(cluster, request_timeout_ms=300))


def test_nothing_behind_the_range_is_asked_for() -> None:
    cluster = ScriptedCluster()
    run_virtual(offsets_of(cluster, to_offset=25))
    assert [call.partitions[0].fetch_offset for _, call in cluster.calls] == [0, 10, 20]


def test_a_range_belongs_to_one_topic_id() -> None:
    assert run_virtual(offsets_of(ScriptedCluster(), topic_id="id-1")) == list(range(END))
    with pytest.raises(TopicRecreatedError, match="its id is id-1, not id-0"):
        run_virtual(offsets_of(ScriptedCluster(), topic_id="id-0"))


def test_a_topic_made_anew_under_a_range_ends_it_behind_what_was_fetched() -> None:
    async def scenario() -> list[int]:
        cluster, found = ScriptedCluster(), []
        async for buffer in raw_fetch(cluster, 1 << 30, max_partition_fetch_bytes=1).buffers():
            found.append(buffer.next_offset)
            if buffer.next_offset == 30:
                cluster.learn(topic_id="id-2")
                assert found == [10, 20, 30]
        return found

    with pytest.raises(TopicRecreatedError, match="its id is id-2, not id-1"):
        run_virtual(scenario())


def test_a_range_that_is_given_up_leaves_no_task_behind() -> None:
    async def scenario() -> set[Any]:
        buffers = raw_fetch(ScriptedCluster(), END).buffers()
        await anext(buffers)
        await buffers.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert run_virtual(scenario()) == set()
