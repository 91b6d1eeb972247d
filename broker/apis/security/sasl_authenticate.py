"""SaslAuthenticate: a client of gRPC logs in, and its connection has a session from then on.

A message that names a mechanism begins a dialogue, in place of another one; one that names none goes on with the
connection's. A caller that sends the token of its session renews it: it must be the same user again, and the token and
the streams under it live on (KIP-368). Nothing else may be asked before, at a listener with SASL. Not here: the check
of tokens (`broker/grpc/callers.py`), and Kafka's protocol, where a connection itself is logged in.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.apis.served import Served
from broker.authentication.authentication import Authentication
from broker.authentication.logins import Dialogue
from broker.authentication.sessions import CallerPlace, Dialogues, LoginSession
from broker.authorization.rules.ruling import free
from broker.network.failed_requests import FailRequest
from broker.network.request_channel import ANONYMOUS, Caller, Request
from penstock.clock import Clock
from penstock.errors import IllegalSaslStateError, SaslAuthenticationFailedError
from penstock.messages.client_apis import SASL_AUTHENTICATE
from penstock.messages.security.authentication import SaslAuthenticateRequest, SaslAuthenticateResponse


class SaslAuthenticateApi:
    """Answers SaslAuthenticate. There is one per broker, on the event loop."""

    def __init__(self, by: Authentication, clock: Clock, fail: FailRequest) -> None:
        self._by, self._clock, self._fail = by, clock, fail
        self._dialogues = Dialogues()
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: Request, body: SaslAuthenticateRequest) -> None:
        caller = request.caller
        listener = self._by.listeners.get(caller.listener)
        if listener is None:
            raise IllegalSaslStateError(
                f"the listener {caller.listener} does not ask for a user and a password: connect without them, or to "
                "one that has SASL in listener.security.protocol.map"
            )
        at = CallerPlace(caller.listener, caller.peer)
        if body.mechanism:
            self._dialogues.drop(at)
            dialogue = self._by.logins.begin(listener, body.mechanism)
        else:
            dialogue = self._dialogues.take(at)
        task = asyncio.create_task(self._respond(request, dialogue, body.auth_bytes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, request: Request, dialogue: Dialogue, message: bytes) -> None:
        try:
            answer = await self._by.logins.respond(dialogue, message, request.caller.peer)
            request.complete(self._answer(request.caller, dialogue, answer))
        except Exception as error:
            self._fail(request, error)

    def _answer(self, caller: Caller, dialogue: Dialogue, answer: bytes) -> SaslAuthenticateResponse:
        at, now_ms = CallerPlace(caller.listener, caller.peer), self._clock.now_ms()
        if not dialogue.is_done:
            self._dialogues.keep(at, dialogue, now_ms)
            return SaslAuthenticateResponse(answer)
        lifetime_ms = self._by.lifetime_ms(dialogue)
        session = self._session(caller, at, dialogue.principal, lifetime_ms, now_ms)
        return SaslAuthenticateResponse(answer, session.token, lifetime_ms)

    def _session(self, caller: Caller, at: CallerPlace, principal: str, lifetime_ms: int, now_ms: int) -> LoginSession:
        if caller.principal == ANONYMOUS:
            return self._by.sessions.begin(at, principal, lifetime_ms, now_ms)
        if principal != caller.principal:
            self._by.counts.failed(caller.listener)
            raise SaslAuthenticationFailedError(
                f"{caller.listener}: this connection is {caller.principal}'s, and cannot become {principal}'s; open "
                "another one for another user"
            )
        renewed = self._by.sessions.renew(at, principal, lifetime_ms, now_ms)
        if renewed is None:  # it has ended meanwhile
            return self._by.sessions.begin(at, principal, lifetime_ms, now_ms)
        self._by.counts.renewed(caller.listener)
        return renewed

    def __repr__(self) -> str:
        return f"SaslAuthenticateApi({len(self._by.listeners)} listeners, {len(self._dialogues)} dialogues)"


SERVED: Final = (
    Served(
        api=SASL_AUTHENTICATE,
        rule=free,
        make=lambda parts: SaslAuthenticateApi(parts.authentication, parts.clock, parts.fail).handle,
    ),
)
