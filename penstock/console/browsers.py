"""Browsers and whom they are: cookies, the session behind them, and the way to the cluster for each.

A cluster that takes anybody is shown to anybody, by one connection that is nobody. One that wants a user has a log-in,
and each session a connection of its own that is that user: what a person may see and do is what the cluster's ACLs give
that user, and the audit log has every change as that user's. A console that has a user of its own always asks for a
log-in, because nobody shall act as it.

Cookies are HttpOnly and SameSite=Strict, and Secure where browsers come by TLS. That of a log-in which is under way at
an identity provider is Lax: the browser comes back from another site. Not here: when a session ends (sessions.py).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import Clock
from penstock.console.cluster_link import ClusterLink
from penstock.console.failures import ForbiddenError
from penstock.console.openid.errors import OpenIdRefusedError
from penstock.console.sessions import ConsoleSession, ConsoleSessions, SessionGrant
from penstock.console.settings import ConsoleSettings
from penstock.errors import AuthenticationFailedError
from penstock.lazy_dataclass import dataclass

LIVE_HEADER: Final = "x-penstock-live"
LOGINS_AT_ONCE: Final = 4
"""Questions to the cluster whether it takes a user, and as many to the identity provider: one that hangs keeps nobody
from a log-in with a password."""
LOGIN_SECONDS: Final = 600
USER_LETTERS_MAX: Final = 255
PASSWORD_LETTERS_MAX: Final = 1_024
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LinkMaker = Callable[[str, Mapping[str, Any], Clock], ClusterLink]
STALE_FORM: Final = "the form is too old, or of another site; load its page again"


class LoginNeededError(AuthenticationFailedError):
    """The cluster wants a user, and this browser has not logged in."""


@dataclass(frozen=True, slots=True)
class ProvenUser:
    """A user, and the client options by which the cluster takes the user."""

    user: str
    options: Mapping[str, Any] = field(repr=False)
    grant: SessionGrant | None = None


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser as a request shows it."""

    browser_id: str
    """The id of its session, or a random one; forms carry a token of it."""
    link: ClusterLink
    user: str = ""
    """"" where the cluster takes anybody."""
    is_new: bool = False
    """It has no cookie yet."""
    has_token: bool = False
    """Its user logged in by a token, and has no password here."""


class Browsers:
    """The browsers of one console."""

    def __init__(
        self, settings: ConsoleSettings, clock: Clock, sessions: ConsoleSessions[ClusterLink], make_link: LinkMaker
    ) -> None:
        self._settings, self._clock, self._sessions, self._make_link = settings, clock, sessions, make_link
        self._nobody = make_link(settings.bootstrap, {**settings.connection}, clock)
        self._needs_login: bool | None = True if settings.own_login else None
        self._turns, self._proving = asyncio.Semaphore(LOGINS_AT_ONCE), asyncio.Semaphore(LOGINS_AT_ONCE)
        own = urlsplit(settings.origins[0])
        self._port = own.port or (443 if own.scheme == "https" else 80)

    async def find(self, request: Request, *, touches: bool = True) -> Browser:
        """The browser behind a request; LoginNeededError where it must log in first. `touches` as in `session_of`."""
        session = self.session_of(request, touches=touches)
        if session is not None:
            await self._keep_fresh(session)
            return Browser(session.session_id, session.link, session.user, has_token=session.grant is not None)
        if await self.needs_login():
            raise LoginNeededError("this cluster has users; log in as one of them")
        return self.stranger(request)

    async def _keep_fresh(self, session: ConsoleSession[ClusterLink]) -> None:
        """Returns with a token that counts, where the session has one. LoginNeededError once it ended for good."""
        if session.grant is None:
            return
        try:
            await session.grant.fresh(self._clock.now_ms())
        except OpenIdRefusedError:
            self._sessions.end(session.session_id)
            raise LoginNeededError("your log-in has ended; log in again") from None

    def session_of(self, request: Request, *, touches: bool = True) -> ConsoleSession[ClusterLink] | None:
        """The session of the browser's cookie, if it has not ended. A request that a page makes by itself is no use of
        the session: without `touches`, or with LIVE_HEADER, it lives no longer for it."""
        session_id = request.cookies.get(self._cookie("session", request), "")
        touches = touches and LIVE_HEADER not in request.headers
        return self._sessions.find(session_id, self._clock.now_ms(), touches=touches) if session_id else None

    def stranger(self, request: Request) -> Browser:
        """A browser without a session."""
        browser_id = request.cookies.get(self._cookie("form", request), "")
        return Browser(browser_id or secrets.token_urlsafe(24), self._nobody, is_new=not browser_id)

    async def needs_login(self) -> bool:
        """True if the cluster takes no client without a user. PageAsked once; the cluster's error while it is away."""
        if self._needs_login is None:
            try:
                await self._nobody.reach()
                self._needs_login = False
            except AuthenticationFailedError:
                self._needs_login = True
        return self._needs_login

    def forget_openness(self) -> None:
        """The cluster has refused a client without a user."""
        self._needs_login = True if self._settings.own_login else None

    async def log_in(self, host: str, user: str, password: str, mechanism: str) -> ConsoleSession[ClusterLink]:
        """A session of that user. AuthenticationFailedError where the cluster does not take the user; after several of
        them the host's network waits."""
        login = {"username": user, "password": password, "sasl_mechanism": mechanism}
        return await self._admitted(host, ProvenUser(user, login))

    async def log_in_as(self, host: str, prove: Callable[[], Awaitable[ProvenUser]]) -> ConsoleSession[ClusterLink]:
        """A session of the user whom `prove` finds. What it refuses counts as a failed log-in, too."""
        async with self._proving:
            with self._trying(host):
                proven = await prove()
        return await self._admitted(host, proven)

    async def _admitted(self, host: str, proven: ProvenUser) -> ConsoleSession[ClusterLink]:
        async with self._turns:
            with self._trying(host):
                session = await self._begin(proven)
        await self.close_ended()
        return session

    @contextmanager
    def _trying(self, host: str) -> Iterator[None]:
        """A try from that host: TooManyFailuresError while its network waits, and counted where it fails."""
        self._sessions.check_may_try(host, self._clock.now_ms())
        try:
            yield
        except (AuthenticationFailedError, OpenIdRefusedError):
            self._sessions.note_failure(host, self._clock.now_ms())
            raise

    async def _begin(self, proven: ProvenUser) -> ConsoleSession[ClusterLink]:
        options = {**self._settings.connection, **proven.options}
        link = self._make_link(self._settings.bootstrap, options, self._clock)
        try:
            await link.reach()
            return self._sessions.begin(proven.user, link, self._clock.now_ms(), proven.grant)
        except BaseException:
            await link.close()
            raise

    async def log_out(self, browser: Browser) -> None:
        """Ends the browser's session."""
        self._sessions.end(browser.browser_id)
        await self.close_ended()

    def form_token(self, browser: Browser) -> str:
        """The token that the browser's forms carry."""
        return self._sessions.form_token(browser.browser_id)

    def check_form(self, browser: Browser, token: str) -> None:
        """ForbiddenError for a form that this console did not give this browser."""
        if browser.is_new or not self._sessions.is_form_token(browser.browser_id, token):
            raise ForbiddenError(STALE_FORM)

    def give_session(self, response: Response, request: Request, session: ConsoleSession[ClusterLink]) -> None:
        """The cookie of a session that has begun."""
        self._set(response, request, "session", session.session_id)

    def give_form_cookie(self, response: Response, request: Request, browser: Browser) -> None:
        """The cookie that a browser without a session has, so that its forms are its own."""
        if browser.is_new:
            self._set(response, request, "form", browser.browser_id)

    def take_session(self, response: Response, request: Request) -> None:
        """Deletes the cookie of a session that has ended."""
        name, is_tls = self._cookie("session", request), self._is_tls(request)
        response.delete_cookie(name, path="/", secure=is_tls, httponly=True, samesite="strict")

    def login_cookie(self, request: Request) -> str:
        """The log-in that the browser has under way at the identity provider; "" without one."""
        return request.cookies.get(self._cookie("login", request), "")

    def give_login_cookie(self, response: Response, request: Request, sealed: str) -> None:
        """The cookie of a log-in that is under way. It is sent when another site leads here."""
        self._set(response, request, "login", sealed, "lax", LOGIN_SECONDS)

    def take_login_cookie(self, response: Response, request: Request) -> None:
        """Deletes the cookie of a log-in that came back."""
        self._set(response, request, "login", "", "lax", 0)

    def _set(
        self,
        response: Response,
        request: Request,
        what: str,
        value: str,
        same_site: Literal["lax", "strict"] = "strict",
        max_age_s: int | None = None,
    ) -> None:
        name, is_tls = self._cookie(what, request), self._is_tls(request)
        response.set_cookie(name, value, max_age_s, path="/", secure=is_tls, httponly=True, samesite=same_site)

    def _cookie(self, what: str, request: Request) -> str:
        """The name of a cookie. Cookies know no ports, and there may be two consoles on one machine."""
        return f"{'__Host-' if self._is_tls(request) else ''}penstock_{what}_{self._port}"

    def _is_tls(self, request: Request) -> bool:
        return self._settings.is_tls_at(request.headers.get("host", ""))

    async def close_ended(self) -> None:
        """Closes the connections of sessions that have ended."""
        self._sessions.end_old(self._clock.now_ms())
        for session in self._sessions.ended():
            if session.grant is not None:
                await session.grant.close()
            await session.link.close()

    async def close(self) -> None:
        """Ends every session and closes every connection."""
        self._sessions.end_all()
        await self.close_ended()
        await self._nobody.close()

    def __repr__(self) -> str:
        return f"Browsers({self._sessions!r})"
