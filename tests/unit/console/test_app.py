"""The application without a cluster: log-in, forms, failures, and the twin of a page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from penstock.clock import Clock, ManualClock
from penstock.console.app import create_app
from penstock.console.cluster_link import ClusterLink
from penstock.console.page import ASKED_OF_USER_AT_ONCE, ConsolePage, PageAsked
from penstock.console.page_table import PAGES
from penstock.console.rendering import TEMPLATES
from penstock.console.sessions import FAILURES_MAX, IDLE_MS
from penstock.console.settings import ConsoleSettings
from penstock.errors import (
    AuthenticationRequiredError,
    BootstrapError,
    PenstockError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

ORIGIN = "http://127.0.0.1:9180"
HOSTILE = "<script>alert(1)</script>"


@dataclass(frozen=True, slots=True)
class View:
    user: str
    name: str
    turn: int


class FakeLink(ClusterLink):
    """Reaches a cluster that has one user, or takes anybody."""

    is_open = False
    is_away = False
    closed: list[str]

    def __init__(self, bootstrap: str, options: Mapping[str, Any], clock: Clock) -> None:
        super().__init__(bootstrap, options, clock)
        self.options = options

    async def reach(self) -> None:
        if FakeLink.is_away:
            raise BootstrapError("no broker answered")
        if not self.options and not FakeLink.is_open:
            raise AuthenticationRequiredError("log in")
        if self.options and self.options.get("password") != "right":
            raise SaslAuthenticationFailedError("the user's name or the password is wrong")

    async def close(self) -> None:
        FakeLink.closed.append(self.options.get("username", ""))
        await super().close()


class Stage:
    """A console on fakes, and a browser on it."""

    def __init__(self, **settings: Any) -> None:
        FakeLink.is_open, FakeLink.is_away, FakeLink.closed = False, False, []
        self.clock, self.turns, self.error = ManualClock(), 0, None
        self.error: Exception | None = None
        self.answers: asyncio.Event | None = None
        self.all_asked = asyncio.Event()
        page = ConsolePage("/echo", "Echo", self.show, "overview.html", fields=("name",), menu="Echo")
        self.app = create_app(
            ConsoleSettings(bootstrap="none:1", origins=(ORIGIN,), **settings),
            pages=(page,),
            clock=self.clock,
            make_link=FakeLink,
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ORIGIN)

    async def show(self, asked: PageAsked) -> View:
        self.turns += 1
        if self.turns == ASKED_OF_USER_AT_ONCE:
            self.all_asked.set()
        if self.answers is not None:
            await self.answers.wait()
        if self.error is not None:
            raise self.error
        return View(asked.user, asked.fields.text("name", "nobody"), self.turns)

    async def form_token(self) -> str:
        text = (await self.client.get("/login")).text
        found = re.search(r'name="token" value="(\w+)"', text)
        assert found is not None
        return found[1]

    async def log_in(self, password: str = "right", **more: str) -> httpx.Response:
        form = {"token": await self.form_token(), "user": "anna", "password": password, **more}
        return await self.client.post("/login", data=form, headers={"origin": ORIGIN})


def on_stage(story: Callable[[Stage], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def run() -> None:
        stage = Stage(**settings)
        async with stage.client:
            await story(stage)

    asyncio.run(run())


def test_a_browser_logs_in_sees_the_page_it_wanted_and_logs_out() -> None:
    async def story(stage: Stage) -> None:
        first = await stage.client.get("/echo.json?name=a%26b")
        assert first.status_code == 401 and first.json()["error"]["name"] == "LoginNeededError"
        sent = await stage.client.get("/echo?name=a%26b")
        assert (sent.status_code, sent.headers["location"]) == (303, "/login?to=%2Fecho%3Fname%3Da%2526b")
        done = await stage.log_in(to="/echo?name=a%26b")
        assert (done.status_code, done.headers["location"]) == (303, "/echo?name=a%26b")
        cookie = done.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
        assert (await stage.client.get("/echo.json?name=a%26b")).json() == {"user": "anna", "name": "a&b", "turn": 1}
        token = stage.app.state.console.browsers._sessions.form_token(stage.client.cookies["penstock_session_9180"])
        out = await stage.client.post("/logout", data={"token": token})
        assert out.headers["location"] == "/login" and FakeLink.closed == ["anna"]
        assert (await stage.client.get("/echo.json")).status_code == 401

    on_stage(story)


def test_a_page_of_two_sessions_in_one_moment_has_the_token_of_each() -> None:
    async def story(stage: Stage) -> None:
        stage.app = create_app(stage.app.state.console.settings, clock=stage.clock, make_link=FakeLink)
        texts = []
        for _ in range(2):
            stage.client = httpx.AsyncClient(transport=httpx.ASGITransport(stage.app), base_url=ORIGIN)
            await stage.log_in()
            token = stage.app.state.console.browsers._sessions.form_token(stage.client.cookies["penstock_session_9180"])
            texts.append(((await stage.client.get("/pictures")).text, token))
            assert (await stage.client.get("/pictures")).text == texts[-1][0]
            await stage.client.aclose()
        (first, first_token), (second, second_token) = texts
        assert first_token in first and second_token in second and second_token not in first

    on_stage(story)


def test_all_sessions_of_a_user_ask_a_bounded_number_of_questions_at_a_time() -> None:
    async def story(stage: Stage) -> None:
        stage.answers = asyncio.Event()
        clients = [stage.client, httpx.AsyncClient(transport=stage.client._transport, base_url=ORIGIN)]
        waiting = []
        for client in clients:
            stage.client = client
            await stage.log_in()
            half = ASKED_OF_USER_AT_ONCE // 2
            waiting += [asyncio.create_task(client.get(f"/echo.json?name={n}")) for n in range(half)]
        await stage.all_asked.wait()
        refused = await clients[0].get("/echo.json?name=one-more")
        assert refused.status_code == 503 and "16 pages of this user wait" in refused.text
        again = asyncio.create_task(clients[0].get("/echo.json?name=0"))
        stage.answers.set()
        assert {answer.status_code for answer in await asyncio.gather(*waiting, again)} == {200}
        assert (await clients[0].get("/echo.json?name=one-more")).status_code == 200
        assert stage.turns == ASKED_OF_USER_AT_ONCE + 1, "a page that is on its way is asked for once"
        await clients[1].aclose()

    on_stage(story)


def test_a_session_that_ended_is_closed_and_asks_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.log_in()
        stage.clock.advance(IDLE_MS)
        assert (await stage.client.get("/echo.json")).status_code == 401
        await stage.app.state.console.browsers.close_ended()
        assert FakeLink.closed == ["anna"]

    on_stage(story)


def test_a_page_that_is_on_its_way_at_a_log_out_says_that_the_log_in_has_ended() -> None:
    async def story(stage: Stage) -> None:
        await stage.log_in()
        token = stage.app.state.console.browsers._sessions.form_token(stage.client.cookies["penstock_session_9180"])
        stage.answers = asyncio.Event()
        waiting = [asyncio.create_task(stage.client.get(f"/echo.json?name={n}")) for n in range(ASKED_OF_USER_AT_ONCE)]
        await stage.all_asked.wait()
        await stage.client.post("/logout", data={"token": token})
        answers = await asyncio.gather(*waiting)
        assert {(one.status_code, one.json()["error"]["name"]) for one in answers} == {(401, "LogInEndedError")}

    on_stage(story)


def test_a_calendar_that_is_set_by_a_day_ends_no_session_and_keeps_none_alive() -> None:
    async def story(stage: Stage) -> None:
        await stage.log_in()
        for day_ms in (86_400_000, -2 * 86_400_000):
            stage.clock.jump_wall(day_ms)
            assert (await stage.client.get("/echo.json")).status_code == 200
        stage.clock.advance(IDLE_MS)
        assert (await stage.client.get("/echo.json")).status_code == 401

    on_stage(story)


def test_wrong_passwords_are_said_and_after_some_nobody_may_try() -> None:
    async def story(stage: Stage) -> None:
        for _ in range(FAILURES_MAX):
            answer = await stage.log_in("wrong")
            assert answer.status_code == 401 and "is wrong" in answer.text and 'value="anna"' in answer.text
        assert len(FakeLink.closed) == FAILURES_MAX
        assert (await stage.log_in("right")).status_code == 429

    on_stage(story)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"token": "0" * 64, "user": "anna", "password": "right"}, 403),
        ({"user": "anna", "password": "right"}, 403),
    ],
)
def test_a_log_in_without_this_browsers_token_is_refused(form: dict[str, str], status: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.form_token()
        assert (await stage.client.post("/login", data=form)).status_code == status

    on_stage(story)


def test_a_form_that_is_long_or_of_another_kind_is_refused() -> None:
    async def story(stage: Stage) -> None:
        token = await stage.form_token()
        long = await stage.client.post("/login", data={"token": token, "user": "a" * 9000})
        assert long.status_code == 400 and "longer than" in long.text
        other = await stage.client.post("/login", json={"token": token})
        assert other.status_code == 400 and "content-type" in other.text

    on_stage(story)


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "/nope", "javascript:1"])
def test_a_log_in_leads_nowhere_else(to: str) -> None:
    async def story(stage: Stage) -> None:
        assert (await stage.log_in(to=to)).headers["location"] == "/overview"

    on_stage(story)


def test_a_link_of_another_site_keeps_the_session() -> None:
    async def story(stage: Stage) -> None:
        answer = await stage.client.get("/echo?name=a", headers={"sec-fetch-site": "cross-site"})
        assert answer.status_code == 200 and "set-cookie" not in answer.headers
        assert answer.headers["refresh"] == "0;url=/login?to=%2Fecho%3Fname%3Da"
        await stage.log_in()
        back = await stage.client.get("/login?to=/echo%3Fname%3Da")
        assert (back.status_code, back.headers["location"]) == (303, "/echo?name=a")

    on_stage(story)


def test_an_open_cluster_needs_no_log_in_unless_the_console_has_a_user() -> None:
    async def story(stage: Stage) -> None:
        FakeLink.is_open = True
        assert (await stage.client.get("/echo.json")).json()["user"] == ""

    async def with_user(stage: Stage) -> None:
        FakeLink.is_open = True
        assert (await stage.client.get("/echo.json")).status_code == 401

    on_stage(story)
    on_stage(with_user, own_login={"username": "console", "password": "right"})


def test_a_page_is_asked_for_once_a_second() -> None:
    async def story(stage: Stage) -> None:
        await stage.log_in()
        answers = await asyncio.gather(*(stage.client.get("/echo.json") for _ in range(8)))
        assert [one.json()["turn"] for one in answers] == [1] * 8
        stage.clock.advance(1000)
        assert (await stage.client.get("/echo.json")).json()["turn"] == 2

    on_stage(story)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (BootstrapError(f"no broker answered {HOSTILE}"), 503, "does not answer"),
        (TopicAuthorizationFailedError("User:anna may not READ topic x"), 403, "may not READ"),
        (PenstockError("odd"), 503, "odd"),
        (ZeroDivisionError("secret"), 500, "a bug|unexpected"),
    ],
)
def test_an_error_is_a_page_and_never_a_traceback(error: Exception, status: int, words: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.log_in()
        stage.error = error
        page, twin = await stage.client.get("/echo"), await stage.client.get("/echo.json")
        assert page.status_code == twin.status_code == status
        assert re.search(words, page.text) and "<script" not in page.text and "Traceback" not in page.text
        assert "secret" not in page.text + twin.text
        assert json.loads(twin.text)["error"]["message"]
        stage.error = None
        assert (await stage.client.get("/echo.json")).status_code == 200  # an error is not kept

    on_stage(story)


def test_a_cluster_that_is_away_is_a_calm_page() -> None:
    async def story(stage: Stage) -> None:
        FakeLink.is_away = True
        page = await stage.client.get("/echo")
        assert page.status_code == 503 and "no broker answered" in page.text
        FakeLink.is_away, FakeLink.is_open = False, True
        assert (await stage.client.get("/echo.json")).status_code == 200

    on_stage(story)


def test_an_unknown_page_or_field_is_said() -> None:
    async def story(stage: Stage) -> None:
        assert (await stage.client.get(f"/{HOSTILE}")).status_code == 404
        await stage.log_in()
        wrong = await stage.client.get("/echo.json?nme=1")
        assert wrong.status_code == 400 and "nme" in wrong.json()["error"]["message"]

    on_stage(story)


def test_cookies_are_secure_under_tls() -> None:
    async def story(stage: Stage) -> None:
        app = create_app(
            ConsoleSettings(bootstrap="none:1", origins=("https://c.example",)), pages=(), make_link=FakeLink
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://c.example") as client:
            answer = await client.get("/login")
        assert answer.headers["set-cookie"].startswith("__Host-penstock_form_443=")
        assert "Secure" in answer.headers["set-cookie"]
        assert "strict-transport-security" in answer.headers

    on_stage(story)


def test_every_page_has_its_template_and_an_address_of_its_own() -> None:
    paths = [path for page in PAGES for path in (page.path, page.json_path)]
    assert len(set(paths)) == len(paths)
    assert [page.template for page in PAGES if not (TEMPLATES / page.template).exists()] == []
    assert PAGES[0].path == "/overview"


def test_cookies_are_those_of_tls_for_who_comes_by_a_proxy_with_tls() -> None:
    async def run() -> None:
        public = "https://console.example"
        FakeLink.is_open, FakeLink.is_away, FakeLink.closed = False, False, []
        settings = ConsoleSettings(bootstrap="none:1", origins=(ORIGIN, public))
        app = create_app(settings, clock=ManualClock(), make_link=FakeLink)
        for base, name, is_secure in (
            (public, "__Host-penstock_form_9180", True),
            (ORIGIN, "penstock_form_9180", False),
        ):
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client:
                cookie = (await client.get("/login")).headers["set-cookie"]
                assert cookie.startswith(f"{name}=") and ("Secure" in cookie) is is_secure
                assert ("strict-transport-security" in (await client.get("/login")).headers) is is_secure

    asyncio.run(run())
