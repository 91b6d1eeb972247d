"""The console as an ASGI application: routes made from the table of pages, one way to answer them all.

    GET  /topics?filter=a       the page           GET  /topics.json?filter=a    the same as JSON
    GET  /login, POST /login    the log-in         POST /logout                  its end

A page and its twin come from one view. An error is a page, too, with its status (failures.py), and never a traceback.
`watch` is a task that runs as long as the console, and `more` are routes of others. Not here: what every request must
be (guard.py), and who asks (browsers.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.clock import Clock, SystemClock
from penstock.console.as_json import jsonable
from penstock.console.browsers import Browser, Browsers, LinkMaker
from penstock.console.change import ConsoleChange
from penstock.console.change_table import CHANGES
from penstock.console.changing import change_routes
from penstock.console.cluster_link import ClusterLink
from penstock.console.downloads import download_route
from penstock.console.failures import NotFoundError, failure_page
from penstock.console.fields import Fields
from penstock.console.forms import BodiesHeld
from penstock.console.guard import Guard
from penstock.console.logins.openid_login import openid_routes
from penstock.console.logins.password_login import HOME, login_routes
from penstock.console.page import ConsolePage, PageAsked, ReadingTurns, UserQuestions, address_of
from penstock.console.page_table import PAGES
from penstock.console.rendering import KeptTexts, template_environment
from penstock.console.sessions import ConsoleSessions
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.plain_text import plain_json
from penstock.tasks import watch as report_death

_log = logging.getLogger(__name__)

STATIC: Final = Path(__file__).parent / "static"
CROSS_SITE: Final = "cross-site"
SWEEP_SECONDS: Final = 60.0

Endpoint = Callable[[Request], Awaitable[Response]]


class Console:
    """One console: its pages, its browsers, and how an answer is made."""

    def __init__(
        self,
        settings: ConsoleSettings,
        *,
        pages: Sequence[ConsolePage] = PAGES,
        watch: ClusterWatch | None = None,
        clock: Clock | None = None,
        make_link: LinkMaker = ClusterLink,
    ) -> None:
        self.settings, self.pages, self.watch = settings, tuple(pages), watch
        self.clock: Clock = clock or SystemClock()
        sessions: ConsoleSessions[ClusterLink] = ConsoleSessions(
            partial(secrets.token_urlsafe, 32), secrets.token_bytes(32)
        )
        self.browsers = Browsers(settings, self.clock, sessions, make_link)
        self._templates, self._texts = template_environment(), KeptTexts()
        self._reading, self._questions = ReadingTurns(), UserQuestions()
        self.is_stopping = False
        """Streams end, because the console does."""

    def asked(self, browser: Browser, fields: Fields) -> PageAsked:
        """The request for a page as that browser's user."""
        now_ms = self.clock.wall_ms()
        return PageAsked(
            browser.link,
            fields,
            self.settings,
            now_ms,
            browser.user,
            self.watch,
            self._reading,
            has_token=browser.has_token,
        )

    def asking(self, browser: Browser) -> AbstractContextManager[None]:
        """Counts one question of the browser's user; TimedOutError where too many wait already."""
        return self._questions.one(browser.user)

    def stop(self) -> None:
        """The console begins to end: its streams do, so that nobody is cut off."""
        self.is_stopping = True
        if self.watch is not None:
            self.watch.stop()

    async def view(self, page: ConsolePage, browser: Browser, fields: Fields) -> Any:
        """The view of a page, as it was asked for just now or a moment ago."""
        asked = self.asked(browser, fields)

        async def ask() -> Any:
            with self.asking(browser):
                return await page.show(asked)

        return await browser.link.answer((page.path, fields.as_pairs()), page.kept_ms, ask)

    def html(
        self, template: str, browser: Browser | None, request: Request, status: int = 200, **values: object
    ) -> Response:
        """A page from its template."""
        return self._sent(self._text(template, browser, request, **values), browser, request, status)

    def page_html(
        self, page: ConsolePage, browser: Browser, request: Request, fields: Fields, view: object
    ) -> Response:
        """A page of the table. Its text is made once for all who see the same view: a view is of one link, so of one
        session, or of those who have none."""
        values = {"title": page.title, "view": view, "page": page, "fields": dict(fields.as_pairs())}
        key = page.path, fields.as_pairs()
        text = self._texts.of(key, view, lambda: self._text(page.template, browser, request, **values))
        return self._sent(text, browser, request, 200)

    def page_json(self, page: ConsolePage, fields: Fields, view: object) -> Response:
        """The JSON twin of a page, likewise."""
        key = page.json_path, fields.as_pairs()
        return json_answer(self._texts.of(key, view, lambda: json_text(jsonable(view))))

    def _text(self, template: str, browser: Browser | None, request: Request, **values: object) -> str:
        return self._templates.get_template(template).render(
            menu=[page for page in self.pages if page.menu],
            here=request.url.path,
            user=browser.user if browser is not None else "",
            token=self.browsers.form_token(browser) if browser is not None else "",
            settings=self.settings,
            wall_ms=self.clock.wall_ms(),
            **values,
        )

    def _sent(self, text: str, browser: Browser | None, request: Request, status: int) -> Response:
        response = HTMLResponse(text, status)
        if browser is not None and not browser.user:
            self.browsers.give_form_cookie(response, request, browser)
        return response

    def failed(self, error: BaseException, browser: Browser | None, request: Request, *, as_json: bool) -> Response:
        """The answer where something went wrong."""
        failure = failure_page(error)
        if failure.status == 500:
            _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        if as_json:
            return json_response({"error": {"name": failure.name, "message": failure.text}}, failure.status)
        if failure.status == 401 and not (browser and browser.user):
            self.browsers.forget_openness()
            return to_login(request)
        return self.html("failure.html", browser, request, failure.status, title=failure.title, failure=failure)


def create_app(
    settings: ConsoleSettings,
    *,
    pages: Sequence[ConsolePage] = PAGES,
    changes: Sequence[ConsoleChange] = CHANGES,
    watch: ClusterWatch | None = None,
    more: Callable[[Console], Sequence[BaseRoute]] = lambda console: (),
    clock: Clock | None = None,
    make_link: LinkMaker = ClusterLink,
) -> Starlette:
    """The application; `app.state.console` is its Console."""
    console = Console(settings, pages=pages, watch=watch, clock=clock, make_link=make_link)
    routes: list[BaseRoute] = [Route("/", _home)]
    for page in console.pages:
        routes.append(Route(page.path, partial(show_page, console, page, as_json=False)))
        routes.append(Route(page.json_path, partial(show_page, console, page, as_json=True)))
    routes += [
        *login_routes(console),
        *openid_routes(console),
        download_route(console),
        *change_routes(console, changes),
        *more(console),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    async def no_route(request: Request, error: Exception) -> Response:
        missing = NotFoundError(f"this console has no page {request.url.path[:200]}")
        return console.failed(missing, None, request, as_json=request.url.path.endswith(".json"))

    async def broken(request: Request, error: Exception) -> Response:
        return console.failed(error, None, request, as_json=request.url.path.endswith(".json"))

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, origins=settings.origins)],
        exception_handlers={404: no_route, 500: broken},
        lifespan=partial(_lifespan, console),
    )
    app.state.console, app.state.bodies = console, BodiesHeld()
    return app


@contextlib.asynccontextmanager
async def _lifespan(console: Console, app: Starlette) -> AsyncIterator[None]:
    """Runs the watch, and closes what sessions have left, until the console ends."""
    tasks = [asyncio.create_task(_sweep(console))]
    if console.watch is not None:
        tasks.append(asyncio.create_task(console.watch.run()))
    for task in tasks:
        report_death(task, lambda error: _log.error("a part of the console has ended", exc_info=error))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await console.browsers.close()


async def _sweep(console: Console) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        await console.browsers.close_ended()


async def show_page(console: Console, page: ConsolePage, request: Request, *, as_json: bool) -> Response:
    """Answers a request for one page of the table."""
    browser = None
    try:
        browser = await console.browsers.find(request)
        fields = Fields.parsed(request.scope["query_string"], page.fields)
        view = await console.view(page, browser, fields)
    except Exception as error:
        return console.failed(error, browser, request, as_json=as_json)
    if as_json:
        return console.page_json(page, fields, view)
    return console.page_html(page, browser, request, fields, view)


def json_text(value: object) -> str:
    """A JSON document without letters that begin a tag, should anything ever take it for a page."""
    text = plain_json(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def json_answer(text: str, status: int = 200) -> Response:
    """A JSON document as an answer."""
    return Response(text, status, media_type="application/json; charset=utf-8")


def json_response(value: object, status: int = 200) -> Response:
    """A value as JSON."""
    return json_answer(json_text(value), status)


def to_login(request: Request) -> Response:
    """Leads to the log-in, and back to the page afterwards. A browser that comes by a link of another site has not sent
    its cookie, and does so where this console's own answer leads it."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = address_of("/login", to=target if request.method == "GET" and target != "/" else "")
    if request.headers.get("sec-fetch-site") != CROSS_SITE:
        return RedirectResponse(login, 303)
    return Response(headers={"refresh": f"0;url={login}"}, media_type="text/html")


async def _home(request: Request) -> Response:
    return RedirectResponse(HOME, 303)
