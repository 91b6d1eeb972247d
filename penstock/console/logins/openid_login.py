"""The log-in by an identity provider: to it, and back (OpenID Connect's authorization code flow with PKCE).

    GET /login/openid?to=/topics      begins: leads to the provider, and the browser keeps the log-in's state
    GET /login/callback?code=…        back: the code becomes tokens, and the access token a session of its user

The brokers judge the access token (OAUTHBEARER), so rights are the cluster's ACLs of its user. A browser that comes
from another site does not send its new cookie along with a redirect, so the last answer is a page that leads on by
itself.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Final, Protocol
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.clock import Clock
from penstock.console.browsers import ProvenUser
from penstock.console.failures import failure_page
from penstock.console.fields import Fields
from penstock.console.logins.password_login import HOME, LoginConsole, login_page, way_back
from penstock.console.openid.errors import OpenIdRefusedError
from penstock.console.openid.login_state import LoginState, LoginStates
from penstock.console.openid.provider import Provider
from penstock.console.openid.token_grant import TokenGrant
from penstock.console.openid.urls import provider_word

CALLBACK: Final = "/login/callback"
ANSWERED: Final = ("code", "state", "iss", "error", "error_description")


class OpenIdConsole(LoginConsole, Protocol):
    """The part of a console that this log-in needs."""

    clock: Clock


def openid_routes(console: OpenIdConsole) -> list[BaseRoute]:
    """The two routes; none without a provider."""
    if console.settings.openid is None:
        return []
    provider = Provider(console.settings.openid, console.clock.now_ms, console.clock.wall_ms)
    door = OpenIdLogin(console, provider)
    return [Route("/login/openid", door.begin, methods=["GET"]), Route(CALLBACK, door.end, methods=["GET"])]


class OpenIdLogin:
    """Log-ins by one provider."""

    def __init__(self, console: OpenIdConsole, provider: Provider) -> None:
        self._console, self._provider = console, provider
        self._states = LoginStates(partial(secrets.token_urlsafe, 32), secrets.token_bytes(32))

    async def begin(self, request: Request) -> Response:
        """Leads to the provider."""
        console, to = self._console, HOME
        try:
            to = way_back(console, Fields.parsed(request.scope["query_string"], ("to",)).text("to", HOME))
            if console.browsers.session_of(request) is not None:
                return RedirectResponse(to, 303)
            login = self._states.begin(self._callback_of(request), to, console.clock.now_ms())
            sealed = self._states.sealed(login)
            response = RedirectResponse(await self._provider.login_address(login), 303)
        except Exception as error:
            return self._failed(error, request, to)
        console.browsers.give_login_cookie(response, request, sealed)
        return response

    async def end(self, request: Request) -> Response:
        """Takes the person back from the provider."""
        console, to, is_ours = self._console, HOME, False
        try:
            fields = Fields.parsed(request.scope["query_string"], ANSWERED, others_pass=True)
            now_ms = console.clock.now_ms()
            login = self._states.opened(console.browsers.login_cookie(request), fields.text("state", ""), now_ms)
            to, is_ours = login.to, True
            await self._provider.check_answered(fields.text("iss", ""))
            if fields.has("error"):
                why = " ".join(provider_word(fields.text(name, "")) for name in ("error", "error_description"))
                raise OpenIdRefusedError(f"the identity provider refuses the log-in: {why.strip()}")
            host = request.client.host if request.client is not None else ""
            prove = partial(self._proven, login, fields.text("code"))
            session = await console.browsers.log_in_as(host, prove)
        except Exception as error:
            response = self._failed(error, request, to)
            if is_ours:  # or a link of another site could end a log-in that is under way
                console.browsers.take_login_cookie(response, request)
            return response
        response = console.html(
            "logged_in.html", console.browsers.stranger(request), request, title="Logged in", address=to
        )
        response.headers["refresh"] = f"0;url={quote(to, safe=':/%#?=@[]!$&()*+,~')}"
        console.browsers.give_session(response, request, session)
        console.browsers.take_login_cookie(response, request)
        return response

    async def _proven(self, login: LoginState, code: str) -> ProvenUser:
        tokens, identity = await self._provider.tokens_of(login, code)
        renew = partial(self._provider.renewed, identity=identity)
        grant = TokenGrant(tokens, renew, self._console.clock.now_ms())
        return ProvenUser(identity.user, {"token_provider": grant.token}, grant)

    def _callback_of(self, request: Request) -> str:
        """The address to which the provider leads back: by the name at which the browser knows the console."""
        host = request.headers.get("host", "")
        return f"{'https' if self._console.settings.is_tls_at(host) else 'http'}://{host}{CALLBACK}"

    def _failed(self, error: Exception, request: Request, to: str) -> Response:
        browser, failure = self._console.browsers.stranger(request), failure_page(error)
        if failure.status == 500:
            return self._console.failed(error, browser, request, as_json=False)
        return login_page(self._console, browser, request, {"to": to}, failure)

    def __repr__(self) -> str:
        return f"OpenIdLogin({self._provider!r})"
