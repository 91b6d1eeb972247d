"""Errors, as a page and its JSON twin say them: an HTTP status, the fact, and the remedy. Pure.

400  a field is not as it should be          401  no session, or the cluster does not take its user any more
403  the user's ACLs do not allow it         404  there is no such topic, group or page
409  the cluster refuses the change          429  too many tries
503  the cluster does not answer             500  a bug of the console: any error without a type for what it means
"""

from __future__ import annotations

from typing import Final

from penstock.console.fields import FieldError
from penstock.console.openid.errors import OpenIdRefusedError, ProviderAwayError
from penstock.console.sessions import TooManyFailuresError, TooManySessionsError
from penstock.errors import (
    ApiError,
    AuthenticationFailedError,
    AuthorizationFailedError,
    BootstrapError,
    BrokerIdNotRegisteredError,
    ConfigError,
    GroupIdNotFoundError,
    PenstockError,
    TimedOutError,
    UnknownTopicOrPartitionError,
)
from penstock.lazy_dataclass import dataclass

TEXT_LETTERS_MAX: Final = 2_000
"""A node's text is shown up to here."""
AWAY: Final = "The console tries again with the next request. `penstock cluster health` asks every broker by itself."
PROVIDER_AWAY: Final = "Try again in a moment. The console's log and the provider's own have the rest."
UNCERTAIN: Final = (
    "The request may have reached the cluster before the answer was lost. Look at the page of what you changed before"
    " you send it again; a record that is sent again may be there twice."
)


@dataclass(frozen=True, slots=True)
class WebFailure:
    """An error for a person and for a script."""

    status: int
    name: str
    title: str
    text: str
    remedy: str = ""
    field: str = ""
    """The field that is wrong; "" for other errors."""


class NotFoundError(PenstockError):
    """The console has no such page."""


class ForbiddenError(PenstockError):
    """The console itself refuses a request, whoever makes it."""


class UncertainChangeError(PenstockError):
    """A change was sent, and no answer says that it was done or refused."""


def failure_page(error: BaseException) -> WebFailure:
    """The failure as a person reads it."""
    name = error.kafka_name if isinstance(error, ApiError) else type(error).__name__
    text = str(error)[:TEXT_LETTERS_MAX]
    if isinstance(error, FieldError):
        return WebFailure(400, name, "A field is wrong", text, field=error.field)
    if isinstance(error, NotFoundError | UnknownTopicOrPartitionError | GroupIdNotFoundError):
        return WebFailure(404, name, "Not found", text)
    if isinstance(error, BrokerIdNotRegisteredError):
        return WebFailure(404, name, "Not found", text)
    if isinstance(error, ForbiddenError):
        return WebFailure(403, name, "Refused", text)
    if isinstance(error, AuthorizationFailedError):
        return WebFailure(403, name, "A right is missing", text)
    if isinstance(error, AuthenticationFailedError | OpenIdRefusedError):
        return WebFailure(401, name, "Log in", text)
    if isinstance(error, TooManyFailuresError):
        return WebFailure(429, name, "Too many tries", text)
    if isinstance(error, TooManySessionsError):
        return WebFailure(503, name, "The console is full", text)
    if isinstance(error, ProviderAwayError):
        return WebFailure(503, name, "The identity provider does not answer", text, PROVIDER_AWAY)
    if isinstance(error, UncertainChangeError):
        return WebFailure(503, name, "It may be done", text, UNCERTAIN)
    if isinstance(error, BootstrapError | TimedOutError) or (isinstance(error, ApiError) and error.retriable):
        return WebFailure(503, name, "The cluster does not answer", text, AWAY)
    if isinstance(error, ApiError):
        return WebFailure(409, name, "The cluster refuses", text)
    if isinstance(error, ConfigError):
        return WebFailure(400, name, "That cannot be asked", text)
    if isinstance(error, PenstockError):
        return WebFailure(503, name, "It did not work", text)
    return WebFailure(500, name, "A bug of the console", f"unexpected {name}; the console's log has the rest")
