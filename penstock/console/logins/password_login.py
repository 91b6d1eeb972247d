"""The log-in form, the log-in with a password, and the log-out.

Not here: the log-in by an identity provider (openid_login.py), and who a browser is (../browsers.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.console.browsers import (
    MECHANISMS,
    PASSWORD_LETTERS_MAX,
    USER_LETTERS_MAX,
    Browser,
    Browsers,
    LoginNeededError,
)
from penstock.console.failures import WebFailure, failure_page
from penstock.console.fields import FieldError, Fields
from penstock.console.forms import TOKEN, read_form
from penstock.console.page import ConsolePage
from penstock.console.settings import ConsoleSettings

HOME: Final = "/overview"
LOGIN_FIELDS: Final = (TOKEN, "to", "user", "password", "mechanism")


class LoginConsole(Protocol):
    """The part of a console that a log-in needs."""

    settings: ConsoleSettings
    browsers: Browsers

    @property
    def pages(self) -> Sequence[ConsolePage]: ...

    def html(
        self, template: str, browser: Browser | None, request: Request, status: int = 200, **values: object
    ) -> Response:
        """A page from its template."""
        ...

    def failed(self, error: BaseException, browser: Browser | None, request: Request, *, as_json: bool) -> Response:
        """The answer where something went wrong."""
        ...


def login_routes(console: LoginConsole) -> list[BaseRoute]:
    """The form, the log-in and the log-out."""
    return [
        Route("/login", partial(_login_form, console), methods=["GET"]),
        Route("/login", partial(_log_in, console), methods=["POST"]),
        Route("/logout", partial(_log_out, console), methods=["POST"]),
    ]


def way_back(console: LoginConsole, to: str) -> str:
    """The page that the browser came from; only one of this console's own."""
    path = to.partition("?")[0]
    return to if any(path in (page.path, page.json_path) for page in console.pages) else HOME


async def _login_form(console: LoginConsole, request: Request) -> Response:
    browser = console.browsers.stranger(request)
    try:
        fields = Fields.parsed(request.scope["query_string"], ("to",))
        back = way_back(console, fields.text("to", HOME))
        if console.browsers.session_of(request) is not None or not await console.browsers.needs_login():
            return RedirectResponse(back, 303)
    except Exception as error:
        return console.failed(error, browser, request, as_json=False)
    return login_page(console, browser, request, {"to": back})


def login_page(
    console: LoginConsole,
    browser: Browser,
    request: Request,
    given: Mapping[str, str],
    failure: WebFailure | None = None,
) -> Response:
    """The form, with what went wrong."""
    openid = console.settings.openid
    return console.html(
        "login.html",
        browser,
        request,
        failure.status if failure is not None else 200,
        title="Log in",
        given={"to": HOME, "user": "", "mechanism": MECHANISMS[0], **given},
        mechanisms=MECHANISMS,
        failure=failure,
        provider=urlsplit(openid.issuer).netloc if openid is not None else "",
    )


async def _log_in(console: LoginConsole, request: Request) -> Response:
    browser = console.browsers.stranger(request)
    given: dict[str, str] = {}
    try:
        form = await read_form(request, LOGIN_FIELDS, bytes_max=8 * 1024)
        console.browsers.check_form(browser, form.text(TOKEN, ""))
        mechanism = form.choice("mechanism", MECHANISMS, MECHANISMS[0])
        given = {"to": way_back(console, form.text("to", HOME)), "mechanism": mechanism}
        user, password = form.text("user"), form.text("password")
        if len(user) > USER_LETTERS_MAX or len(password) > PASSWORD_LETTERS_MAX:
            raise FieldError("user", "the name or the password is too long")
        given["user"] = user
        host = request.client.host if request.client is not None else ""
        session = await console.browsers.log_in(host, user, password, mechanism)
    except Exception as error:
        failure = failure_page(error)
        if failure.status == 500:
            return console.failed(error, browser, request, as_json=False)
        return login_page(console, browser, request, given, failure)
    response = RedirectResponse(given["to"], 303)
    console.browsers.give_session(response, request, session)
    return response


async def _log_out(console: LoginConsole, request: Request) -> Response:
    browser = None
    try:
        browser = await console.browsers.find(request)
        form = await read_form(request, (TOKEN,), bytes_max=8 * 1024)
        console.browsers.check_form(browser, form.text(TOKEN, ""))
    except LoginNeededError:
        return RedirectResponse("/login", 303)
    except Exception as error:
        return console.failed(error, browser, request, as_json=False)
    await console.browsers.log_out(browser)
    response = RedirectResponse("/login", 303)
    console.browsers.take_session(response, request)
    return response
