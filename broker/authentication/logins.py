"""Logs users in by SASL, for both protocols: chooses the mechanism, and takes a dialogue's messages one by one.

Guessing is slow. An answer that refuses is held back for `connection.failed.authentication.delay.ms`, and the attempts
under way, which are those held back and those being computed, are bounded so that nobody takes the places of others
(attempts.py). Above that an attempt is refused unheard, and a client tries again soon. A mechanism that computes for
milliseconds does so in a thread, address by address (slow_work.py).

Not here: a connection's place in its dialogue, which each protocol keeps, and where users are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Final, NamedTuple, Protocol

from broker.authentication.attempts import Attempts
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.slow_work import SlowWork
from broker.authentication.tokens.ports import NO_TOKENS, Tokens
from penstock.addresses import network_of
from penstock.errors import ResourceExhaustedError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from penstock.sasl.credentials import Credentials
from penstock.sasl.mechanisms import MECHANISMS, SaslMechanism, SaslServer, no_token
from penstock.sasl.oauthbearer import UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.types import Endpoint


class LoginListener(NamedTuple):
    """A listener with SASL, and its mechanisms."""

    name: str
    mechanisms: Collection[str]
    is_tls: bool


class LogInWatch(Protocol):
    """Hears how log-ins end; it must not raise."""

    def succeeded(self, principal: str, listener: str, mechanism: str, peer: Endpoint) -> None: ...

    def refused(self, listener: str, mechanism: str, peer: Endpoint, why: str) -> None: ...


class UnwatchedLogIns(LogInWatch):
    """Nobody hears."""

    def succeeded(self, principal: str, listener: str, mechanism: str, peer: Endpoint) -> None:
        return

    def refused(self, listener: str, mechanism: str, peer: Endpoint, why: str) -> None:
        return


UNWATCHED: Final = UnwatchedLogIns()


class Dialogue(NamedTuple):
    """One user's log-in, between its messages."""

    listener: str
    mechanism: SaslMechanism
    server: SaslServer

    @property
    def is_done(self) -> bool:
        """The user has proved who it is."""
        return self.server.is_done

    @property
    def ends_ms(self) -> int | None:
        """The wall-clock time until which the proof of the user counts; None: without an end."""
        return self.server.ends_ms

    @property
    def refusal_message(self) -> bytes:
        """The mechanism has a client told it before the error of a refusal; empty: nothing."""
        return self.server.refusal_message

    @property
    def principal(self) -> str:
        return f"User:{self.server.username}"


class Logins:
    """Logs users in. There is one per node, on the event loop."""

    def __init__(
        self,
        users: Credentials,
        new_nonce: Callable[[], str],
        slowly: Executor,
        counts: AuthenticationCounts,
        refusal_delay_ms: int,
        watch: LogInWatch = UNWATCHED,
        tokens: Tokens = NO_TOKENS,
    ) -> None:
        """`users` are those of the newest metadata. `new_nonce` is as long, at least, as NONCE_BYTES. `slowly` belongs
        to the caller."""
        self._users, self._new_nonce, self._slowly = users, new_nonce, SlowWork(slowly)
        self._counts, self._delay_ms, self._tokens = counts, refusal_delay_ms, tokens
        self.attempts = Attempts()
        self._watch = watch

    def begin(self, listener: LoginListener, mechanism: str) -> Dialogue:
        """A dialogue; UnsupportedSaslMechanismError for a mechanism that the listener does not offer."""
        offered = offered_by(listener)
        if mechanism not in offered:
            over = "" if mechanism not in listener.mechanisms else ", and this one over TLS only"
            raise UnsupportedSaslMechanismError(
                f"{listener.name} does not offer the SASL mechanism {mechanism[:100]!r}{over}; it has "
                f"{', '.join(offered) or 'none'} (sasl.enabled.mechanisms)"
            )
        row, tokens = MECHANISMS[mechanism], self._tokens.of(listener.name)
        check = no_token if tokens is None else tokens.check
        return Dialogue(listener.name, row, row.server(self._users, self._new_nonce(), check))

    async def respond(self, dialogue: Dialogue, message: bytes, peer: Endpoint) -> bytes:
        """The answer to the client's next message. SaslAuthenticationFailedError, after a while, ends the dialogue;
        ResourceExhaustedError does, too, and says to try again."""
        listener = dialogue.listener
        if not self.attempts.enter(listener, peer):
            self._counts.throttled(listener)
            raise ResourceExhaustedError(f"{listener}: too many authentications are under way; try again in a moment")
        try:
            return await self._respond(dialogue, message, peer)
        finally:
            self.attempts.leave(listener, peer)

    async def _respond(self, dialogue: Dialogue, message: bytes, peer: Endpoint) -> bytes:
        server, listener = dialogue.server, dialogue.listener
        try:
            try:
                answer = await self._answer(dialogue, message, peer)
            except UnknownKeyError:
                tokens = self._tokens.of(listener)
                if tokens is None or not await tokens.learn():
                    raise
                answer = await self._answer(dialogue, message, peer)
        except SaslRefusedError as refusal:
            self._counts.failed(listener)
            self._watch.refused(listener, dialogue.mechanism.name, peer, str(refusal))
            await asyncio.sleep(self._delay_ms / 1000)
            raise SaslAuthenticationFailedError(f"{listener}: authentication failed: {refusal}") from None
        if server.is_done:
            self._counts.succeeded(listener)
            self.attempts.proved(peer.host)
            self._watch.succeeded(dialogue.principal, listener, dialogue.mechanism.name, peer)
        return answer

    async def _answer(self, dialogue: Dialogue, message: bytes, peer: Endpoint) -> bytes:
        server = dialogue.server
        if not dialogue.mechanism.is_slow:
            return server.respond(message)
        is_proven = self.attempts.is_proven(peer.host)
        return await self._slowly.run(network_of(peer.host), is_proven, lambda: server.respond(message))

    def close(self) -> None:
        """Nobody logs in any more."""
        self._slowly.close()

    def __repr__(self) -> str:
        return f"Logins({self.attempts!r})"


def offered_by(listener: LoginListener) -> list[str]:
    """The mechanisms that its clients may use: one that shows a secret is for TLS only."""
    named = (MECHANISMS[name] for name in listener.mechanisms if name in MECHANISMS)
    return [row.name for row in named if listener.is_tls or not row.needs_tls]
