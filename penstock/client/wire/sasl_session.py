"""Logs a user in on one connection to a broker, and keeps the session: SASL over gRPC (KIP-84, KIP-368).

The dialogue is one or more calls of SaslAuthenticate. The broker's last answer has a token, which goes with each call
and stream from then on; it is of use on that connection alone. A session that has an end is renewed before it, under
the same token, so that streams live on. Belongs to one event loop. Not here: what is said in the dialogue
(penstock/sasl), and what a call does whose session the broker does not know (authenticated_channel.py).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.client.wire.login import ClientLogin
from penstock.client.wire.shared_tasks import shared
from penstock.client.wire.statuses import call_cancelled
from penstock.client.wire.transport import Channel, Metadata
from penstock.errors import (
    AuthenticationFailedError,
    AuthenticationRequiredError,
    IllegalSaslStateError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.client_apis import SASL_AUTHENTICATE
from penstock.messages.security.authentication import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.sasl.refusal import SaslRefusedError
from penstock.tasks import watch
from penstock.types import Endpoint
from penstock.wire.message_codec import request_codec, response_codec

_log = logging.getLogger(__name__)

DIALOGUES_MAX: Final = 3
"""How many dialogues are begun: a connection that breaks between two steps takes its dialogue along."""
STEPS_MAX: Final = 5
"""The most steps of one dialogue; SCRAM takes two."""
RENEWED_AT: Final = 0.85
"""The part of a session's time after which it is renewed; Kafka's clients take one from 0.85 to 0.95."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientSession:
    """A user is logged in; `metadata` shows it."""

    metadata: Metadata
    lifetime_ms: int
    """The lifetime of the session; 0: it has no end."""


class SaslSession:
    """The session of one channel."""

    def __init__(self, channel: Channel, endpoint: Endpoint, login: ClientLogin, timeout_ms: int) -> None:
        """`timeout_ms` bounds each step of a dialogue."""
        self._channel, self._endpoint, self._timeout_ms = channel, endpoint, timeout_ms
        self.login = login
        self._session: ClientSession | None = None
        self._logging_in: asyncio.Task[ClientSession] | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def now(self) -> ClientSession | None:
        """The session of the connection that there is; one of a connection that was lost is forgotten. After a restart
        of a broker all its clients would show it tokens that it does not know, which it counts against them."""
        if self._session is not None and not self._channel.is_connected:
            self.forget(self._session)
        return self._session

    async def get(self) -> ClientSession:
        """The session; without one the user logs in. Callers at the same time share the dialogue, and its error: an
        AuthenticationFailedError that names the user, or the error of the call."""
        if self._is_closed:
            raise call_cancelled(self._endpoint)
        if (session := self.now) is not None:
            return session
        if self._logging_in is None or self._logging_in.done():
            self._logging_in = asyncio.ensure_future(self._log_in(None))
        return await shared(self._logging_in, self._endpoint)

    def forget(self, session: ClientSession) -> None:
        """The broker does not know it."""
        if self._session is session:
            self._session = None
            self._end_renewal()

    async def _log_in(self, old: ClientSession | None) -> ClientSession:
        """A new session, or the old one with a later end."""
        dialogue = 0
        while True:
            dialogue += 1
            try:
                session = await self._dialogue(old)
            except (IllegalSaslStateError, AuthenticationRequiredError) as error:
                old = None
                if dialogue == DIALOGUES_MAX:
                    raise self._refused(error) from None
            except AuthenticationFailedError as error:
                raise self._refused(error) from None
            else:
                self._session = session
                self._plan_renewal(session)
                return session

    def _refused(self, error: AuthenticationFailedError) -> AuthenticationFailedError:
        """The broker's error, with who could not log in where."""
        error.args = (f"{self._endpoint}: {self.login} cannot log in: {error}", *error.args[1:])
        return error

    async def _dialogue(self, old: ClientSession | None) -> ClientSession:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                half = await self.login.begin()
        except TimeoutError:
            raise RequestTimedOutError(f"{self.login}: no answer within {self._timeout_ms} ms") from None
        metadata = () if old is None else old.metadata
        mechanism, answer = self.login.mechanism, SaslAuthenticateResponse()
        for step in range(STEPS_MAX):
            try:
                message = half.respond(answer.auth_bytes if step else None)
            except SaslRefusedError as error:
                raise SaslAuthenticationFailedError(str(error)) from None
            if message is None:
                break
            request = request_codec(SASL_AUTHENTICATE).encode(SaslAuthenticateRequest(mechanism, message))
            raw = await self._channel.call(SASL_AUTHENTICATE.method, request, self._timeout_ms, metadata)
            answer, mechanism = response_codec(SASL_AUTHENTICATE).decode(raw), ""
        if not half.is_done or not answer.token:
            raise SaslAuthenticationFailedError("the broker has ended the dialogue before it was done")
        return ClientSession((("authorization", f"Bearer {answer.token}"),), answer.session_lifetime_ms)

    def _plan_renewal(self, session: ClientSession) -> None:
        self._end_renewal()
        if session.lifetime_ms > 0 and not self._is_closed:
            wait_s = session.lifetime_ms * RENEWED_AT / 1000
            self._renewal = asyncio.get_running_loop().call_later(wait_s, self._renew, session)

    def _end_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def _renew(self, session: ClientSession) -> None:
        if self.now is session and (self._logging_in is None or self._logging_in.done()):
            self._logging_in = asyncio.ensure_future(self._log_in(session))
            watch(self._logging_in, self._not_renewed)

    def _not_renewed(self, error: BaseException) -> None:
        """Logs that a renewal failed. It is no error yet: the next call logs in, or is told why not."""
        _log.warning("the session of %s was not renewed: %s", self.login, error)

    async def close(self) -> None:
        self._is_closed = True
        self._end_renewal()
        if self._logging_in is not None:
            self._logging_in.cancel()
            await asyncio.gather(self._logging_in, return_exceptions=True)

    def __repr__(self) -> str:
        return f"SaslSession({self._endpoint}, {self.login}, {'open' if self.now else 'none'})"
