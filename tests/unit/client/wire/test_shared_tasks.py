"""A task that is shared: who stops waiting stops nobody else, and leaves no error that nobody hears."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from penstock.client.wire.shared_tasks import shared
from penstock.errors import NetworkError
from penstock.types import Endpoint

AT = Endpoint("127.0.0.1", 1)


def test_an_error_after_the_last_waiter_has_left_is_not_reported_as_lost() -> None:
    lost: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
        go_on = asyncio.Event()

        async def fail() -> None:
            await go_on.wait()
            raise NetworkError("it is gone")

        task = asyncio.ensure_future(fail())
        waiter = asyncio.ensure_future(shared(task, AT))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        go_on.set()
        await asyncio.wait((task,))
        del task
        gc.collect()

    asyncio.run(run())
    assert lost == []


def test_one_waiter_that_leaves_does_not_stop_the_other() -> None:
    async def run() -> int:
        go_on = asyncio.Event()

        async def work() -> int:
            await go_on.wait()
            return 7

        task = asyncio.ensure_future(work())
        leaves, stays = (asyncio.ensure_future(shared(task, AT)) for _ in range(2))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0)
        go_on.set()
        return await stays

    assert asyncio.run(run()) == 7
