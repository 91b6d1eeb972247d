"""A change is what its plan said, to what it said it of; and where no answer comes, that is said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from penstock.clock import ManualClock
from penstock.console.app import create_app
from penstock.console.change import SECRET, ChangeField, ChangePlan, ConsoleChange
from penstock.console.change_table import CHANGES
from penstock.console.cluster_link import ClusterLink
from penstock.console.page import ASKED_OF_USER_AT_ONCE, PageAsked
from penstock.console.settings import ConsoleSettings
from penstock.errors import TimedOutError, TopicExistsError

ORIGIN = "http://127.0.0.1:9180"
HIDDEN = r'<input type="hidden" name="(\w+)" value="([^"]*)"'


class OpenLink(ClusterLink):
    async def reach(self) -> None:
        """The cluster takes anybody."""


class Stage:
    """A console with one change, of a topic that others change, too."""

    def __init__(self, *, allow_changes: bool = True) -> None:
        self.topic_id, self.done, self.words = "first", list[str](), list[str]()
        self.error: Exception | None = None
        self.answers: asyncio.Event | None = None
        self.asked, self.all_asked = 0, asyncio.Event()
        change = ConsoleChange(
            "/drop",
            "Drop it",
            (ChangeField("name", "Name"), ChangeField("at", "At"), ChangeField("word", "Word", kind=SECRET)),
            self.plan,
            self.perform,
        )
        self.app = create_app(
            ConsoleSettings(bootstrap="a:1", origins=(ORIGIN,), allow_changes=allow_changes),
            changes=(*CHANGES, change),
            make_link=OpenLink,
            clock=ManualClock(),
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ORIGIN)

    async def plan(self, asked: PageAsked) -> ChangePlan:
        self.asked += 1
        if self.asked == ASKED_OF_USER_AT_ONCE:
            self.all_asked.set()
        if self.answers is not None:
            await self.answers.wait()
        fixed = {"at": "1000"} if asked.fields.has("at") else {}
        return ChangePlan("It is dropped.", "penstock drop", must_hold=(self.topic_id,), fixed=fixed)

    async def perform(self, asked: PageAsked) -> str:
        if self.error is not None:
            raise self.error
        self.done.append(asked.fields.text("at", ""))
        self.words.append(asked.fields.text("word", ""))
        return "/topics"

    async def send(self, form: dict[str, str]) -> httpx.Response:
        return await self.client.post("/drop", data=form, headers={"origin": ORIGIN})

    async def planned(self, **fields: str) -> dict[str, str]:
        """The form below the plan, with everything that it has."""
        text = (await self.client.get("/drop")).text
        token = re.search(r'name="token" value="(\w+)"', text)
        assert token is not None
        text = (await self.send({"token": token[1], **fields})).text
        return dict(re.findall(HIDDEN, text))


def on_stage(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        stage = Stage()
        async with stage.client:
            await story(stage)

    asyncio.run(run())


def test_a_plan_that_no_longer_holds_is_shown_anew_and_not_done() -> None:
    async def story(stage: Stage) -> None:
        form = await stage.planned(name="orders")
        stage.topic_id = "second"  # deleted and created again by somebody else
        answer = await stage.send(form)
        assert answer.status_code == 400 and "nothing was done" in answer.text and stage.done == []
        again = dict(re.findall(HIDDEN, answer.text))
        assert (await stage.send(again)).status_code == 303 and stage.done == [""]

    on_stage(story)


def test_a_time_before_now_is_that_of_the_plan() -> None:
    async def story(stage: Stage) -> None:
        await stage.send(await stage.planned(name="orders", at="-2h"))
        assert stage.done == ["1000"]

    on_stage(story)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimedOutError("no answer"), "may have reached the cluster"),
        (TopicExistsError("no"), "The cluster refuses"),
    ],
)
def test_a_change_without_an_answer_may_be_done_and_a_refused_one_is_not(error: Exception, expected: str) -> None:
    async def story(stage: Stage) -> None:
        form = await stage.planned(name="orders")
        stage.error = error
        assert expected in (await stage.send(form)).text

    on_stage(story)


@pytest.mark.parametrize("path", ["/drop", *(change.path for change in CHANGES)])
def test_no_change_is_there_without_the_option(path: str) -> None:
    async def run() -> None:
        stage = Stage(allow_changes=False)
        async with stage.client as client:
            token = re.search(r'name="token" value="(\w+)"', (await client.get("/overview")).text)
            assert token is None
            for answer in (
                await client.get(path),
                await client.post(path, data={"sure": "yes", "name": "a"}, headers={"origin": ORIGIN}),
            ):
                assert answer.status_code == 403 and "--allow-changes" in answer.text
            assert stage.done == []

    asyncio.run(run())


def test_a_form_that_is_sent_twice_is_done_once() -> None:
    async def story(stage: Stage) -> None:
        form = await stage.planned(name="orders")
        answers = await asyncio.gather(*(stage.send(form) for _ in range(3)))
        answers.append(await stage.send(form))  # a reload, later
        assert [(one.status_code, one.headers["location"]) for one in answers] == [(303, "/topics")] * 4
        assert stage.done == [""]
        again = await stage.planned(name="orders")
        assert again["form"] != form["form"]
        await stage.send(again)
        assert stage.done == ["", ""]

    on_stage(story)


def test_plans_of_a_user_that_wait_are_as_many_as_pages() -> None:
    async def story(stage: Stage) -> None:
        form = await stage.planned(name="orders")
        stage.asked, stage.answers = 0, asyncio.Event()
        waiting = [asyncio.create_task(stage.send({"token": form["token"]})) for _ in range(ASKED_OF_USER_AT_ONCE)]
        await stage.all_asked.wait()
        for refused in (await stage.send(form), await stage.client.get("/topics")):
            assert refused.status_code == 503 and "16 pages of this user wait" in refused.text
        assert stage.asked == ASKED_OF_USER_AT_ONCE and stage.done == []
        stage.answers.set()
        assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
        assert (await stage.send(form)).status_code == 303 and stage.done == [""]

    on_stage(story)


def test_a_secret_is_asked_for_below_the_plan_and_is_in_no_page_or_address() -> None:
    async def story(stage: Stage) -> None:
        assert 'name="word"' not in (await stage.client.get("/drop")).text
        assert (await stage.client.get("/drop?word=s3cret")).status_code == 400
        form = await stage.planned(name="orders", word="s3cret")
        assert "word" not in form
        stage.topic_id = "second"
        refused = await stage.send({**form, "word": "s3cret"})
        assert 'name="word" type="password"' in refused.text and "s3cret" not in refused.text
        again = dict(re.findall(HIDDEN, refused.text))
        assert (await stage.send({**again, "word": "s3cret"})).headers["location"] == "/topics"
        assert stage.words == ["s3cret"]

    on_stage(story)


def test_a_bug_in_a_change_is_a_500_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        form = await stage.planned(name="orders")
        stage.error = ValueError("of our own")
        answer = await stage.send(form)
        assert answer.status_code == 500 and "of our own" not in answer.text and "ValueError" in answer.text

    with caplog.at_level("ERROR", "penstock.console.app"):
        on_stage(story)
    assert "of our own" in caplog.text and "Traceback" in caplog.text
