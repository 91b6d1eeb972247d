"""A task that dies is heard of at once, with its error; one that ends or is cancelled is not."""

from __future__ import annotations

import asyncio

from penstock.tasks import watch


async def fails() -> None:
    raise ValueError("bug")


async def ends() -> None:
    pass


async def waits() -> None:
    await asyncio.Event().wait()


def test_only_the_error_that_ends_a_task_is_told() -> None:
    heard: list[BaseException] = []

    async def scenario() -> None:
        tasks = [asyncio.ensure_future(one()) for one in (fails, ends, waits)]
        for task in tasks:
            watch(task, heard.append)
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert [repr(error) for error in heard] == ["ValueError('bug')"]
