"""The routes of changes: a form, the plan of it, and the change itself, once it was confirmed.

Not here: what is changed (changes/), and whom the form is from (browsers.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.console.browsers import Browser, Browsers
from penstock.console.change import ChangePlan, ConsoleChange
from penstock.console.failures import ForbiddenError, UncertainChangeError, failure_page
from penstock.console.fields import FORM_BYTES_MAX, FieldError, Fields
from penstock.console.forms import TOKEN, read_form
from penstock.console.page import PageAsked
from penstock.console.sent_forms import FORM_ID_LETTERS_MAX, SentForms
from penstock.console.settings import ConsoleSettings

_log = logging.getLogger(__name__)

SURE, TYPED, SEEN, FORM_ID = "sure", "typed", "plan", "form"
OTHER_PLAN: Final = "the cluster is not as it was when the plan was shown; this is the plan now, and nothing was done"
READ_ONLY: Final = "this console only shows; `penstock console --allow-changes` lets users change what their ACLs allow"


class ChangingConsole(Protocol):
    """The part of a console that a change needs."""

    settings: ConsoleSettings
    browsers: Browsers

    def asked(self, browser: Browser, fields: Fields) -> PageAsked:
        """The request as that browser's user."""
        ...

    def asking(self, browser: Browser) -> AbstractContextManager[None]:
        """Counts one question of the browser's user; TimedOutError where too many wait already."""
        ...

    def html(
        self, template: str, browser: Browser | None, request: Request, status: int = 200, **values: object
    ) -> Response:
        """A page from its template."""
        ...

    def failed(self, error: BaseException, browser: Browser | None, request: Request, *, as_json: bool) -> Response:
        """The answer where something went wrong."""
        ...


def change_routes(console: ChangingConsole, changes: Sequence[ConsoleChange]) -> list[BaseRoute]:
    """Two routes for each change."""
    routes: list[BaseRoute] = []
    sent = SentForms()
    for change in changes:
        routes.append(Route(change.path, partial(_form, console, change), methods=["GET"]))
        routes.append(Route(change.path, partial(_post, console, sent, change), methods=["POST"]))
    return routes


async def _form(console: ChangingConsole, change: ConsoleChange, request: Request) -> Response:
    browser = None
    try:
        browser = await _allowed(console, request)
        given = Fields.parsed(request.scope["query_string"], change.names)
    except Exception as error:
        return console.failed(error, browser, request, as_json=False)
    return _shown(console, change, browser, request, given)


def _shown(
    console: ChangingConsole,
    change: ConsoleChange,
    browser: Browser,
    request: Request,
    given: Fields,
    error: FieldError | None = None,
    plan: ChangePlan | None = None,
) -> Response:
    """The form, with its error; or the plan of what it says."""
    return console.html(
        "change.html" if plan is None else "change_plan.html",
        browser,
        request,
        200 if error is None else 400,
        title=change.title,
        change=change,
        given={**dict(given.as_pairs()), **(plan.fixed if plan is not None else {})},
        error=error,
        plan=plan,
        form_id=SentForms.new_id(),
    )


async def _post(console: ChangingConsole, sent: SentForms, change: ConsoleChange, request: Request) -> Response:
    browser, plan = None, None
    given = Fields({})
    try:
        browser = await _allowed(console, request)
        secrets = tuple(one.name for one in change.secrets)
        form = await read_form(request, (TOKEN, SURE, TYPED, SEEN, FORM_ID, *change.names, *secrets), FORM_BYTES_MAX)
        console.browsers.check_form(browser, form.text(TOKEN, ""))
        given = Fields({name: value for name, value in form.as_pairs() if name in change.names})
        key = browser.browser_id, form.text(FORM_ID, "")[:FORM_ID_LETTERS_MAX]
        if form.flag(SURE) and (before := sent.answer_of(key)) is not None:
            return RedirectResponse(await before, 303)
        with console.asking(browser):
            plan = await browser.link.once(partial(change.plan, console.asked(browser, given)))
            if form.flag(SURE):
                if form.text(SEEN, plan.fingerprint) != plan.fingerprint:
                    raise FieldError(SEEN, OTHER_PLAN)
                if plan.confirm and form.text(TYPED, "") != plan.confirm:
                    raise FieldError(TYPED, f"type {plan.confirm} to do it")
                whole = Fields({name: value for name, value in form.as_pairs() if name in (*change.names, *secrets)})
                address = await sent.once(key, partial(_performed, change, console.asked(browser, whole)))
                _log.info("%s has made the change %s", browser.user or "nobody", change.path)
                browser.link.forget_answers()
                return RedirectResponse(address, 303)
    except FieldError as error:
        if browser is None:
            return console.failed(error, browser, request, as_json=False)
        return _shown(console, change, browser, request, given, error, plan)
    except Exception as error:
        return console.failed(error, browser, request, as_json=False)
    return _shown(console, change, browser, request, given, plan=plan)


async def _performed(change: ConsoleChange, asked: PageAsked) -> str:
    """The address of the page that shows it. UncertainChangeError where no answer came: the request may have."""
    try:
        return await asked.link.once(lambda: change.perform(asked))
    except FieldError:
        raise
    except Exception as error:
        if failure_page(error).status == 503:
            raise UncertainChangeError(f"{change.title}: {error}") from error
        raise


async def _allowed(console: ChangingConsole, request: Request) -> Browser:
    """The browser; ForbiddenError for a console that only shows."""
    if not console.settings.allow_changes:
        raise ForbiddenError(READ_ONLY)
    return await console.browsers.find(request)
