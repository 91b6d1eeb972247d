"""SaslHandshake (key 17) and SaslAuthenticate (key 36): a connection logs in, and later again (KIP-43, 152, 368).

A client names a mechanism, and then sends the messages of its dialogue one by one. The state of that is the
connection's (`plan.ConnectionLogin`); one to a listener without SASL has none, and is told so. SaslHandshake is
served in version 1 alone, after which messages come in SaslAuthenticate; but version 0 is advertised, because
librdkafka takes a node without it for one without SASL.
"""

from __future__ import annotations

from typing import Any, Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Asked, Plan, asks_nothing
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from penstock.errors import IllegalSaslStateError, UnsupportedVersionError

HANDSHAKE_KEY: Final = 17
API_VERSIONS_KEY: Final = 18
AUTHENTICATE_KEY: Final = 36
BEFORE_LOGIN: Final = frozenset({HANDSHAKE_KEY, API_VERSIONS_KEY, AUTHENTICATE_KEY})
"""The APIs that a connection to a listener with SASL may ask for before it is logged in, and when its time is over."""
BYTES_MAX: Final = 64 << 10
"""Many times the longest message of a mechanism."""
_NO_SASL: Final = IllegalSaslStateError("this listener has no SASL; connect without, or to another listener")


def sasl_handshake(asked: Asked, body: SaslHandshakeRequest) -> Plan:
    login = asked.connection.login
    if login is None:
        return asks_nothing(SaslHandshakeResponse(error_code=code_of(_NO_SASL)))
    error = login.choose(body.mechanism)
    return asks_nothing(SaslHandshakeResponse(error_code=code_of(error), mechanisms=list(login.offered)))


def sasl_authenticate(asked: Asked, body: SaslAuthenticateRequest | SaslAuthenticateResponse) -> Plan:
    """The plan of an answer. At a listener with SASL the answer was made before: see `_authenticated`."""
    if isinstance(body, SaslAuthenticateResponse):
        return asks_nothing(body)
    return asks_nothing(SaslAuthenticateResponse(error_code=code_of(_NO_SASL), error_message=message_of(_NO_SASL)))


async def _authenticated(
    asked: Asked, body: SaslAuthenticateRequest
) -> SaslAuthenticateRequest | SaslAuthenticateResponse:
    """The answer, which may be long in coming; the connection alone waits for it."""
    login = asked.connection.login
    if login is None:
        return body
    step = await login.respond(bytes(body.auth_bytes))
    if login.principal and step.error is None:
        asked.connection.identified(asked.caller._replace(principal=login.principal))
    return SaslAuthenticateResponse(
        error_code=code_of(step.error),
        error_message=message_of(step.error),
        auth_bytes=step.answer,
        session_lifetime_ms=step.lifetime_ms,
    )


def _other_handshake(asked: Asked, body: Any) -> Plan:
    return asks_nothing(SaslHandshakeResponse(error_code=UnsupportedVersionError.code))


SERVED: Final = (
    serves(
        SaslHandshakeRequest,
        SaslHandshakeResponse,
        (1, 1),
        alone(sasl_handshake),
        advertised=(0, 1),
        other_versions=_other_handshake,
        bytes_max=BYTES_MAX,
    ),
    serves(
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        (0, 2),
        alone(sasl_authenticate),
        bytes_max=BYTES_MAX,
        prepare=_authenticated,
    ),
)
