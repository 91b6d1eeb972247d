"""A person logs in at an identity provider, and is that user of the cluster; what is forged, late or broken is refused.

The provider answers over real HTTP on loopback (tests/support/identity_provider.py).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from penstock.clock import Clock, ManualClock
from penstock.console.app import create_app
from penstock.console.browsers import LOGINS_AT_ONCE
from penstock.console.change import ChangePlan, ConsoleChange
from penstock.console.cluster_link import ClusterLink
from penstock.console.openid.login_state import LOGIN_MS
from penstock.console.openid.provider import KEYS_AGAIN_MS
from penstock.console.page import ConsolePage, PageAsked
from penstock.console.sessions import FAILURES_MAX
from penstock.console.settings import ConsoleSettings, OpenIdSettings
from penstock.errors import AuthenticationRequiredError, SaslAuthenticationFailedError
from tests.support.identity_provider import CLIENT_ID, IdentityProvider, running_provider
from tests.support.issuer import ec_key

ORIGIN = "http://127.0.0.1:9180"
SECRET = "the client's s3cret/+"


@dataclass(frozen=True, slots=True)
class View:
    user: str
    token: str


class TokenLink(ClusterLink):
    """A cluster that takes the tokens of everybody but `refused`."""

    closed: list[str]
    is_refusing = False

    def __init__(self, bootstrap: str, options: Mapping[str, Any], clock: Clock) -> None:
        super().__init__(bootstrap, options, clock)
        self.options = options

    def token(self) -> str:
        return str(self.options["token_provider"]())

    async def reach(self) -> None:
        if "token_provider" not in self.options:
            raise AuthenticationRequiredError("log in")
        if TokenLink.is_refusing:
            raise SaslAuthenticationFailedError("the token is not for the audience that is expected here")

    async def close(self) -> None:
        if "token_provider" in self.options:
            TokenLink.closed.append(self.token())
        await super().close()


class Stage:
    """A console, its provider, and a browser."""

    def __init__(self, provider: IdentityProvider, **settings: Any) -> None:
        TokenLink.closed, TokenLink.is_refusing = [], False
        self.provider, self.clock = provider, ManualClock(50_000)
        provider.now_s = lambda: self.clock.wall_ms() // 1000
        openid = OpenIdSettings(
            **{"issuer": provider.url, "client_id": CLIENT_ID, "client_secret": provider.secret, **settings}
        )
        change = ConsoleChange("/drop", "Drop", (), self.plan, self.perform)
        self.app = create_app(
            ConsoleSettings(bootstrap="none:1", origins=(ORIGIN,), openid=openid, allow_changes=True),
            pages=(ConsolePage("/echo", "Echo", self.show, "overview.html", fields=("name",), kept_ms=0),),
            changes=(change,),
            clock=self.clock,
            make_link=TokenLink,
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ORIGIN)
        self.seen: list[str] = []
        """Everything that the console has answered."""

    async def show(self, asked: PageAsked) -> View:
        assert isinstance(asked.link, TokenLink)
        return View(asked.user, asked.link.token()[-8:])

    async def plan(self, asked: PageAsked) -> ChangePlan:
        from penstock.console.change import shell_command

        return ChangePlan("It is dropped.", shell_command(asked, ["drop"]))

    async def perform(self, asked: PageAsked) -> str:
        return "/echo"

    async def get(self, path: str) -> httpx.Response:
        answer = await self.client.get(path)
        self.seen.append(f"{answer.headers} {answer.text}")
        return answer

    async def begun(self, to: str = "/echo?name=a b") -> str:
        """The address at the provider to which the console leads."""
        answer = await self.get(f"/login/openid?to={to}")
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def answered(self, address: str) -> str:
        """The address to which the provider leads back."""
        async with httpx.AsyncClient(trust_env=False, verify=False) as browser:
            back = (await browser.get(address)).headers["location"]
        assert back.startswith(f"{ORIGIN}/login/callback?")
        return back.removeprefix(ORIGIN)

    async def log_in(self) -> httpx.Response:
        return await self.get(await self.answered(await self.begun()))

    async def renewal(self) -> None:
        """Returns once the renewal that runs beside the pages is done."""
        (session,) = self.app.state.console.browsers._sessions._by_id.values()
        await session.grant._renewal

    async def user(self) -> str:
        """The user of the browser's session; "" without one."""
        answer = await self.get("/echo.json")
        return answer.json().get("user", "")


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with running_provider(SECRET) as running:
        yield running


def on_stage(provider: IdentityProvider, story: Callable[[Stage], Coroutine[Any, Any, None]], **settings: Any) -> Stage:
    stage = Stage(provider, **settings)

    async def run() -> None:
        async with stage.client:
            await story(stage)
            await stage.app.state.console.browsers.close()

    asyncio.run(run())
    return stage


def alert_of(answer: httpx.Response) -> str:
    found = re.search(r'role="alert" class="bad">([^<]*)<', answer.text)
    return found[1] if found is not None else ""


def test_a_person_logs_in_sees_the_page_and_no_token_is_in_any_answer(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        assert "Log in at 127.0.0.1" in (await stage.get("/login?to=/echo")).text
        address = await stage.begun()
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["tenant"] == "a" and asked["response_type"] == "code" and asked["scope"] == "openid"
        assert asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43
        assert asked["redirect_uri"] == f"{ORIGIN}/login/callback"
        done = await stage.get(await stage.answered(address))
        assert done.status_code == 200 and done.headers["refresh"] == "0;url=/echo?name=a%20b"
        cookies = done.headers.get_list("set-cookie")
        assert any("penstock_session" in one and "SameSite=strict" in one and "HttpOnly" in one for one in cookies)
        assert any("penstock_login" in one and "Max-Age=0" in one for one in cookies)
        assert await stage.user() == "anna"
        token = re.search(r'name="token" value="(\w+)"', (await stage.get("/drop")).text)
        assert token is not None
        plan = await stage.client.post("/drop", data={"token": token[1]}, headers={"origin": ORIGIN})
        assert "--token-file token" in plan.text and "--username" not in plan.text
        stage.seen.append(plan.text)
        out = await stage.client.post("/logout", data={"token": token[1]}, headers={"origin": ORIGIN})
        assert out.status_code == 303 and TokenLink.closed == [provider.given[0]] and await stage.user() == ""

    stage = on_stage(provider, story)
    everything = "\n".join(stage.seen)
    assert len(provider.given) == 3 and SECRET not in everything
    for token in provider.given:
        assert not any(part in everything for part in token.split(".") if len(part) > 16)


def test_a_public_client_needs_no_secret_and_other_claims_may_name_the_user() -> None:
    with running_provider() as provider:
        provider.lies["id"] = {"preferred_username": "Anna"}

        async def story(stage: Stage) -> None:
            assert "audience=kafka" in await stage.begun()
            await stage.log_in()
            assert await stage.user() == "Anna"

        on_stage(provider, story, user_claim="preferred_username", audience="kafka")


async def _wrong_state(stage: Stage) -> httpx.Response:
    back = await stage.answered(await stage.begun())
    return await stage.get(re.sub(r"state=[^&]*", "state=another", back))


async def _no_state(stage: Stage) -> httpx.Response:
    back = await stage.answered(await stage.begun())
    return await stage.get(re.sub(r"state=[^&]*", "", back))


async def _another_browser(stage: Stage) -> httpx.Response:
    back = await stage.answered(await stage.begun())
    stage.client.cookies.clear()
    return await stage.get(back)


async def _another_login(stage: Stage) -> httpx.Response:
    back = await stage.answered(await stage.begun())
    await stage.begun()
    return await stage.get(back)


async def _forged_cookie(stage: Stage) -> httpx.Response:
    back = await stage.answered(await stage.begun())
    name, value = next((n, v) for n, v in stage.client.cookies.items() if "login" in n)
    stage.client.cookies.clear()
    stage.client.cookies.set(name, f"{value[:-1]}{'0' if value[-1] != '0' else '1'}", domain="127.0.0.1")
    return await stage.get(back)


async def _late(stage: Stage) -> httpx.Response:
    back = await stage.answered(await stage.begun())
    stage.clock.advance(LOGIN_MS)
    return await stage.get(back)


async def _other_issuer(stage: Stage) -> httpx.Response:
    stage.provider.lies["back"] = {"iss": "https://evil.example"}
    return await stage.log_in()


async def _unnamed_issuer(stage: Stage) -> httpx.Response:
    stage.provider.lies["back"] = {"iss": ""}
    return await stage.log_in()


async def _denied(stage: Stage) -> httpx.Response:
    stage.provider.lies["back"] = {"code": "", "error": "access_denied", "error_description": "<b>not you</b>"}
    return await stage.log_in()


async def _made_up_code(stage: Stage) -> httpx.Response:
    stage.provider.lies["back"] = {"code": "made-up"}
    return await stage.log_in()


async def _refused_by_brokers(stage: Stage) -> httpx.Response:
    TokenLink.is_refusing = True
    return await stage.log_in()


REFUSALS = {
    "another log-in": (_wrong_state, _no_state, _another_login),
    "has begun no log-in here": (_another_browser, _forged_cookie),
    "longer than 10 minutes": (_late,),
    "of another identity provider": (_other_issuer, _unnamed_issuer),
    "access_denied": (_denied,),
    "invalid_grant": (_made_up_code,),
    "audience that is expected": (_refused_by_brokers,),
}


@pytest.mark.parametrize(("why", "attack"), [(why, attack) for why, attacks in REFUSALS.items() for attack in attacks])
def test_an_answer_that_is_not_of_this_log_in_is_refused(
    provider: IdentityProvider, why: str, attack: Callable[[Stage], Coroutine[Any, Any, httpx.Response]]
) -> None:
    async def story(stage: Stage) -> None:
        answer = await attack(stage)
        assert answer.status_code == 401 and why in alert_of(answer), answer.text
        assert "<b>" not in answer.text and await stage.user() == ""

    on_stage(provider, story)


def test_an_answer_is_of_use_once(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        back = await stage.answered(await stage.begun())
        cookies = dict(stage.client.cookies)
        await stage.get(back)
        stage.client.cookies.clear()
        for name, value in cookies.items():
            stage.client.cookies.set(name, value, domain="127.0.0.1")
        asked = len(provider.asked)
        answer = await stage.get(back)
        assert answer.status_code == 401 and "used already" in alert_of(answer)
        assert len(provider.asked) == asked, "the provider is not asked again"

    on_stage(provider, story)


def test_a_link_of_another_site_ends_no_log_in_that_is_under_way(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        back = await stage.answered(await stage.begun())
        await stage.get("/login/callback?state=forged&code=x")
        await stage.get(back)
        assert await stage.user() == "anna"

    on_stage(provider, story)


ID_TOKENS: dict[str, dict[str, Any]] = {
    "another log-in (nonce)": {"id": {"nonce": "another"}},
    "another log-in (nonce) ": {"id": {"nonce": None}},
    "its iss": {"id": {"iss": "https://evil.example"}},
    "its aud": {"id": {"aud": "another"}},
    "(azp)": {"id": {"aud": [CLIENT_ID, "another"]}},
    "(azp) ": {"id": {"azp": "another"}},
    "expired": {"id": {"exp": 1_000}},
    "its exp": {"id": {"exp": None}},
    "its iat": {"id": {"iat": 99_999_999_999}},
    "its sub": {"id": {"sub": None}},
    "who it is": {"id": {"sub": " "}},
    "signed by a key": {"key": ec_key("second")},
    "is no signed JWT": {"tokens": {"id_token": "a.b"}},
    "algorithm is not taken": {"tokens": {"id_token": "eyJhbGciOiJub25lIn0.e30.x"}},
}


@pytest.mark.parametrize("why", ID_TOKENS)
def test_an_id_token_that_does_not_count_logs_nobody_in(provider: IdentityProvider, why: str) -> None:
    provider.lies = ID_TOKENS[why]

    async def story(stage: Stage) -> None:
        answer = await stage.log_in()
        assert answer.status_code == 401 and why.strip() in alert_of(answer), alert_of(answer)
        assert await stage.user() == ""

    on_stage(provider, story)


BROKEN: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "describes another issuer": ({"description": {"issuer": "https://evil.example"}}, {}),
    "describes another issuer ": ({"raw": {"/.well-known/openid-configuration": b"[" * 100_000}}, {}),
    "an endpoint that is missing": ({"description": {"token_endpoint": "http://evil.example/token"}}, {}),
    "an endpoint that is missing ": ({"description": {"jwks_uri": None}}, {}),
    "an endpoint that is missing  ": ({"description": {"authorization_endpoint": "javascript:alert(1)"}}, {}),
    "does not know PKCE": ({"description": {"code_challenge_methods_supported": ["plain"]}}, {}),
    "answers 302": ({}, {"/.well-known/openid-configuration": 302}),
    "more than": ({"raw": {"/.well-known/openid-configuration": b" " * 300_000}}, {}),
    "no JSON object": ({"raw": {"/token": b"\xff"}}, {}),
    "no access token": ({"tokens": {"access_token": "two words"}}, {}),
    "no access token ": ({"tokens": {"token_type": "mac"}}, {}),
    "no access token  ": ({"tokens": {"refresh_token": 7}}, {}),
    "no ID token": ({"tokens": {"id_token": ""}}, {}),
    "answers 500": ({}, {"/token": 500}),
    "answers 503": ({}, {"/keys": 503}),
    "no keys that can be used": ({"raw": {"/keys": b"{}"}}, {}),
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_provider_that_lies_or_fails_costs_a_log_in_and_is_asked_again_later(
    provider: IdentityProvider, why: str
) -> None:
    provider.lies, provider.statuses = BROKEN[why]

    async def story(stage: Stage) -> None:
        begun = await stage.get("/login/openid")
        answer = begun
        if begun.status_code == 303:
            answer = await stage.get(await stage.answered(begun.headers["location"]))
        assert answer.status_code == 503 and why.strip() in alert_of(answer), answer.text
        assert 'name="password"' in answer.text, "a password still does"
        provider.lies, provider.statuses = {}, {}
        await stage.log_in()
        assert await stage.user() == "anna"

    on_stage(provider, story)


def test_a_provider_that_is_away_is_a_calm_page(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        answer = await stage.get("/login/openid?to=/echo")
        assert answer.status_code == 503 and "does not answer (ConnectError)" in alert_of(answer)

    on_stage(provider, story, issuer="http://127.0.0.1:1")


def test_a_provider_that_hangs_keeps_nobody_from_a_log_in_with_a_password(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        browsers, never = stage.app.state.console.browsers, asyncio.Event()
        hanging = [asyncio.create_task(browsers.log_in_as("h", never.wait)) for _ in range(LOGINS_AT_ONCE + 1)]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            with pytest.raises(AuthenticationRequiredError):  # the cluster was asked: it takes tokens alone
                await browsers.log_in("h", "anna", "her password", "SCRAM-SHA-256")
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    on_stage(provider, story)


def test_keys_that_the_provider_has_changed_are_asked_for_again(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        await stage.log_in()
        provider.issuer.keys = [ec_key("second")]
        stage.client.cookies.clear()
        stage.clock.advance(KEYS_AGAIN_MS)
        await stage.log_in()
        assert await stage.user() == "anna" and provider.asked.count("/keys") == 2

    on_stage(provider, story)


def test_log_ins_that_fail_shut_their_network_out(provider: IdentityProvider) -> None:
    async def story(stage: Stage) -> None:
        for _ in range(FAILURES_MAX):
            assert (await _made_up_code(stage)).status_code == 401
        asked = len(provider.asked)
        answer = await stage.log_in()
        assert answer.status_code == 429 and len(provider.asked) == asked + 1, "the token endpoint is not asked"

    on_stage(provider, story)


# -- renewal -----------------------------------------------------------------------------------------------------------


def test_a_token_is_renewed_before_it_ends_and_pages_go_on(provider: IdentityProvider) -> None:
    provider.life_s = 300

    async def story(stage: Stage) -> None:
        await stage.log_in()
        first = (await stage.get("/echo.json")).json()["token"]
        stage.clock.advance(250_000)
        await stage.get("/echo.json")
        await stage.renewal()
        stage.clock.advance(100_000)
        second = (await stage.get("/echo.json")).json()
        assert second["user"] == "anna" and second["token"] != first and provider.asked.count("/token") == 2

    on_stage(provider, story)


def test_a_token_that_has_ended_is_renewed_by_the_next_request_or_the_person_logs_in_again(
    provider: IdentityProvider,
) -> None:
    provider.life_s = 300

    async def story(stage: Stage) -> None:
        await stage.log_in()
        stage.clock.advance(400_000)
        assert await stage.user() == "anna" and provider.asked.count("/token") == 2
        stage.clock.advance(400_000)
        provider.statuses = {"/token": 500}
        assert (await stage.get("/echo.json")).status_code == 503
        assert (await stage.get("/echo.json")).status_code == 503 and provider.asked.count("/token") == 3
        provider.statuses = {}
        stage.clock.advance(10_000)
        assert await stage.user() == "anna"
        stage.clock.advance(400_000)
        provider._refreshing.clear()
        ended = await stage.get("/echo.json")
        assert ended.status_code == 401 and ended.json()["error"]["name"] == "LoginNeededError"
        assert (await stage.get("/echo")).headers["location"] == "/login?to=%2Fecho"

    on_stage(provider, story)


def test_without_a_refresh_token_the_log_in_ends_with_the_token(provider: IdentityProvider) -> None:
    provider.life_s, provider.lies = 300, {"tokens": {"refresh_token": ""}}

    async def story(stage: Stage) -> None:
        await stage.log_in()
        stage.clock.advance(299_000)
        assert await stage.user() == "anna"
        stage.clock.advance(1_000)
        assert await stage.user() == "" and provider.asked.count("/token") == 1

    on_stage(provider, story)


def test_a_renewal_as_somebody_else_ends_the_log_in(provider: IdentityProvider) -> None:
    provider.life_s = 300

    async def story(stage: Stage) -> None:
        await stage.log_in()
        provider.user = "bill"
        stage.clock.advance(400_000)
        assert await stage.user() == ""

    on_stage(provider, story)
