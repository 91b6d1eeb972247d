"""A party has few calls in one turn of the loop, all in their order, and others wait for none of them."""

from __future__ import annotations

import asyncio

from broker.grpc.incoming.call_turns import OF_PARTY, CallTurns


class Calls:
    """Calls that begin when they may; `begun` has them by the turn of the loop."""

    def __init__(self) -> None:
        self.turns, self.begun = CallTurns(), list[str]()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def come(self, party: str, *numbers: int) -> None:
        for number in numbers:
            self.tasks[f"{party}{number}"] = asyncio.get_running_loop().create_task(self._begin(party, number))

    async def _begin(self, party: str, number: int) -> None:
        await self.turns.turn(party)
        self.begun.append(f"{party}{number}")

    async def turn(self) -> list[str]:
        """The calls that began in the next turn of the loop."""
        before = len(self.begun)
        await asyncio.sleep(0)
        return self.begun[before:]


def test_few_of_a_party_begin_in_a_turn_in_their_order_and_none_is_lost() -> None:
    async def main() -> None:
        calls = Calls()
        calls.come("a", *range(5 * OF_PARTY))
        found = []
        while len(calls.begun) < 5 * OF_PARTY:
            found.append(await calls.turn())
        assert max(map(len, found)) == OF_PARTY
        assert calls.begun == [f"a{number}" for number in range(5 * OF_PARTY)]
        assert repr(calls.turns) == "CallTurns(0 calls of 0 parties wait)"

    asyncio.run(main())


def test_others_wait_for_none_of_them() -> None:
    async def main() -> None:
        calls = Calls()
        calls.come("a", *range(100))
        await calls.turn()
        calls.come("b", 0)
        assert "b0" in await calls.turn()
        assert len(calls.begun) <= 3 * OF_PARTY + 1

    asyncio.run(main())


def test_a_party_whose_calls_wait_overtakes_none_of_them() -> None:
    async def main() -> None:
        calls = Calls()
        calls.come("a", *range(OF_PARTY + 1))
        await calls.turn()
        assert not calls.turns.begin("a")
        while len(calls.begun) <= OF_PARTY:
            await calls.turn()
        await calls.turn()
        assert calls.turns.begin("a")

    asyncio.run(main())


def test_a_call_whose_client_has_left_takes_no_turn() -> None:
    async def main() -> None:
        calls = Calls()
        calls.come("a", *range(3 * OF_PARTY))
        await calls.turn()
        gone = [f"a{number}" for number in range(OF_PARTY, 2 * OF_PARTY)]
        for name in gone:
            calls.tasks[name].cancel()
        while len(calls.begun) < 2 * OF_PARTY:
            await calls.turn()
        await asyncio.gather(*calls.tasks.values(), return_exceptions=True)
        assert set(calls.begun) == calls.tasks.keys() - set(gone)
        assert repr(calls.turns) == "CallTurns(0 calls of 0 parties wait)"

    asyncio.run(main())


def test_nothing_goes_on_where_no_call_comes() -> None:
    async def main() -> None:
        calls = Calls()
        calls.come("a", 0)
        for _ in range(4):
            await calls.turn()
        loop = asyncio.get_running_loop()
        assert not loop._ready, "no turn is given to nobody"  # type: ignore[attr-defined]

    asyncio.run(main())
