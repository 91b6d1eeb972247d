"""A form is done once, however often it is sent."""

from __future__ import annotations

import asyncio

import pytest

from penstock.console.failures import UncertainChangeError
from penstock.console.sent_forms import SentForms
from penstock.errors import TopicExistsError

KEY = ("browser", "form")


class Act:
    """A change that is held up, or fails."""

    def __init__(self) -> None:
        self.times, self.may_end = 0, asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> str:
        self.times += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return f"/done-{self.times}"


def test_two_at_once_and_one_later_have_the_first_ones_answer() -> None:
    async def story() -> None:
        sent, act = SentForms(), Act()
        both = [asyncio.create_task(sent.once(KEY, act)) for _ in range(2)]
        await asyncio.sleep(0)
        assert (before := sent.answer_of(KEY)) is not None
        act.may_end.set()
        assert await asyncio.gather(*both, before) == ["/done-1"] * 3
        assert await sent.once(KEY, act) == "/done-1" and act.times == 1
        assert await sent.once(("another", "form"), act) == "/done-2"

    asyncio.run(story())


def test_a_browser_that_goes_away_stops_no_change() -> None:
    async def story() -> None:
        sent, act = SentForms(), Act()
        first = asyncio.create_task(sent.once(KEY, act))
        await asyncio.sleep(0)
        first.cancel()
        act.may_end.set()
        assert await sent.once(KEY, act) == "/done-1" and act.times == 1

    asyncio.run(story())


def test_a_refused_change_may_be_sent_again_and_an_uncertain_one_may_not() -> None:
    async def story() -> None:
        sent, act = SentForms(), Act()
        act.may_end.set()
        act.error = TopicExistsError("no")
        for _ in range(2):
            with pytest.raises(TopicExistsError):
                await sent.once(KEY, act)
            await asyncio.sleep(0)
        assert act.times == 2
        act.error = UncertainChangeError("no answer")
        for _ in range(3):
            with pytest.raises(UncertainChangeError):
                await sent.once(KEY, act)
        assert act.times == 3

    asyncio.run(story())


def test_a_form_without_an_id_is_not_remembered_and_of_many_the_oldest_is_forgotten() -> None:
    async def story() -> None:
        sent, act = SentForms(remembered_max=2), Act()
        act.may_end.set()
        for form in ("", "", "a", "b", "c"):
            await sent.once(("browser", form), act)
        assert act.times == 5 and repr(sent) == "SentForms(2 of 2)"
        assert sent.answer_of(("browser", "a")) is None and sent.answer_of(("browser", "")) is None
        assert sent.answer_of(("browser", "c")) is not None
        assert len({SentForms.new_id() for _ in range(100)}) == 100

    asyncio.run(story())
