"""A call that nobody waits for any more is ended, and its own task ends by that."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from penstock.wire.unary_answer import unary_answer


class Call:
    """A call of the library: its task gives the answer to those who await the call."""

    def __init__(self, answer: bytes | None = b"answer") -> None:
        self._ended, self._answer = asyncio.Event(), answer
        self.told: list[str] = []
        self._invocation_task = asyncio.ensure_future(self._invoke())

    async def _invoke(self) -> bytes | None:
        await self._ended.wait()
        return self._answer

    def _cancel(self, details: str) -> None:
        self.told.append(details)
        self._ended.set()

    def end(self) -> None:
        self._ended.set()

    def __await__(self) -> Generator[None, None, bytes | None]:
        return self._invocation_task.__await__()


@pytest.mark.parametrize("answer", [b"answer", b"", None])
def test_the_answer_is_that_of_the_call(answer: bytes | None) -> None:
    async def story() -> None:
        call = Call(answer)
        waiting = asyncio.ensure_future(unary_answer(call))
        await asyncio.sleep(0)
        call.end()
        assert await waiting == answer and call.told == []

    asyncio.run(story())


def test_a_caller_that_goes_ends_the_call_whose_task_ends_by_itself() -> None:
    async def story() -> None:
        call = Call()
        waiting = asyncio.ensure_future(unary_answer(call))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await call._invocation_task
        assert call.told == ["the caller has gone"] and not call._invocation_task.cancelled()

    asyncio.run(story())


def test_a_call_without_a_task_is_awaited_as_it_is() -> None:
    async def story() -> None:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        answer.set_result(b"a")
        assert await unary_answer(answer) == b"a"

    asyncio.run(story())
