"""Few pages of a console read records at a time, and fewer of one user."""

from __future__ import annotations

import asyncio

from penstock.console.page import ReadingTurns


def test_a_user_with_many_sessions_reads_as_much_at_a_time_as_with_one() -> None:
    async def story() -> None:
        turns, reading, most = ReadingTurns(total=3, of_user=2), list[str](), list[int]()
        go_on = asyncio.Event()

        async def read(user: str) -> None:
            async with turns.turn(user):
                reading.append(user)
                await go_on.wait()
                most.append(len(reading))
                reading.remove(user)

        tasks = [asyncio.create_task(read(user)) for user in ("anna", "anna", "anna", "bert", "bert")]
        for _ in range(10):
            await asyncio.sleep(0)
        assert sorted(reading) == ["anna", "anna", "bert"]
        go_on.set()
        await asyncio.gather(*tasks)
        assert max(most) <= 3 and len(most) == 5
        del tasks
        assert repr(turns) == "ReadingTurns(0 users)"

    asyncio.run(story())
