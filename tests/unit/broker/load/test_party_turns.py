"""Promises of the turns at threads: a party has few pieces at work, and the parties take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.load.party_turns import PartyTurns


class Work:
    """Pieces that begin when they may, and end when the test says so."""

    def __init__(self, turns: PartyTurns) -> None:
        self.turns, self.begun = turns, list[str]()

    def ask(self, party: str, name: str) -> None:
        come = self._come(party, name)
        if self.turns.begin(party):
            self.begun.append(name)
        else:
            self.turns.wait(party, come)

    def _come(self, party: str, name: str) -> Callable[[], None]:
        def come() -> None:
            assert self.turns.begin(party)
            self.begun.append(name)

        return come


def test_a_party_leaves_threads_free_for_others_and_these_wait_for_none_of_its_pieces() -> None:
    work = Work(PartyTurns(1, 2))
    for name in ("a1", "a2", "a3"):
        work.ask("a", name)
    work.ask("b", "b1")
    assert work.begun == ["a1", "b1"]
    work.turns.done("a")
    assert work.begun == ["a1", "b1", "a2"]


def test_parties_take_turns_however_many_pieces_one_of_them_has() -> None:
    work = Work(PartyTurns(1, 1))
    for number in range(4):
        work.ask("a", f"a{number}")
    work.ask("b", "b0")
    work.ask("c", "c0")
    for party in ("a", "a", "b", "c", "a"):
        work.turns.done(party)
    assert work.begun == ["a0", "a1", "b0", "c0", "a2", "a3"]


def test_a_piece_that_nobody_wants_any_more_takes_no_turn() -> None:
    work = Work(PartyTurns(1))
    work.ask("a", "a1")
    for _ in range(10_000):
        work.turns.wait("a", lambda: None)
    work.ask("a", "a2")
    work.turns.done("a")
    assert work.begun == ["a1", "a2"]


def test_a_piece_that_ends_as_it_begins_gives_its_turn_to_the_next() -> None:
    turns = PartyTurns(1)
    ended = 0

    def at_once() -> None:
        nonlocal ended
        assert turns.begin("a")
        ended += 1
        turns.done("a")

    assert turns.begin("a")
    for _ in range(10_000):
        turns.wait("a", at_once)
    turns.done("a")
    assert ended == 10_000 and turns.begin("a")


def test_who_gives_up_while_it_waits_or_in_the_moment_of_its_turn_keeps_no_turn() -> None:
    async def main() -> None:
        turns = PartyTurns(1)
        await turns.turn("a")
        waits, follows = asyncio.create_task(turns.turn("a")), asyncio.create_task(turns.turn("a"))
        await asyncio.sleep(0)
        turns.done("a")  # its turn has come, and it has not run yet
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await follows
        turns.done("a")
        assert turns.begin("a")

    asyncio.run(main())
