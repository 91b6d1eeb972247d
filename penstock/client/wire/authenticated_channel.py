"""A channel whose user logs in before anything is asked: Channel over another Channel.

The first call or stream of a connection logs in, and others wait for it. A session is over with its connection: when
that is lost, the next call logs in before it is sent. gRPC makes connections anew by itself, also while a call is on
its way, and a broker ends sessions: the broker then refuses the call and has not handled it, so the client logs in
again and repeats the call, once. A stream is not repeated, because only its owner knows what was on it: it breaks, as
it does with its connection. Belongs to one event loop. Not here: the dialogue (sasl_session.py).
"""

from __future__ import annotations

import asyncio

from penstock.client.wire.login import ClientLogin
from penstock.client.wire.sasl_session import ClientSession, SaslSession
from penstock.client.wire.shared_tasks import shared
from penstock.client.wire.statuses import call_cancelled
from penstock.client.wire.transport import ByteStream, Channel, Metadata
from penstock.errors import AuthenticationRequiredError, NetworkError, RequestTimedOutError
from penstock.types import Endpoint


class AuthenticatedChannel:
    """A channel that logs its user in before the first call or stream of each connection."""

    def __init__(self, channel: Channel, endpoint: Endpoint, login: ClientLogin, timeout_ms: int) -> None:
        """`timeout_ms` bounds each step of a log-in."""
        self._channel, self._endpoint = channel, endpoint
        self._session = SaslSession(channel, endpoint, login, timeout_ms)

    @property
    def is_connected(self) -> bool:
        return self._channel.is_connected

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        for is_last in (False, True):
            session = self._session.now
            if session is None:
                try:
                    async with asyncio.timeout_at(deadline):
                        session = await self._session.get()
                except TimeoutError:
                    raise RequestTimedOutError(f"{self._endpoint}: no log-in within {timeout_ms} ms") from None
            left_ms = max(round((deadline - loop.time()) * 1000), 1)
            try:
                return await self._channel.call(method, request, left_ms, (*session.metadata, *metadata))
            except AuthenticationRequiredError as error:
                ended = session_ended(self._session, session, self._endpoint, error)
                if is_last:
                    raise ended from None
        raise AssertionError

    def open_stream(self, method: str, metadata: Metadata = ()) -> ByteStream:
        return _Stream(self._channel, self._session, self._endpoint, method, metadata)

    async def close(self) -> None:
        await self._session.close()
        await self._channel.close()

    def __repr__(self) -> str:
        return f"AuthenticatedChannel({self._channel!r}, {self._session!r})"


def session_ended(
    sessions: SaslSession, session: ClientSession, endpoint: Endpoint, error: AuthenticationRequiredError
) -> NetworkError:
    """A session that the broker does not know is forgotten. The error for what it did not outlive is retriable, because
    the next attempt logs in."""
    sessions.forget(session)
    return NetworkError(f"{endpoint}: the session of {sessions.login} has ended: {error}")


class _Stream:
    """One stream. The channel below opens it with the first write or read, once the user is logged in."""

    __slots__ = ("_below", "_channel", "_endpoint", "_is_cancelled", "_name", "_opening", "_session", "_sessions")

    def __init__(
        self, channel: Channel, sessions: SaslSession, endpoint: Endpoint, method: str, metadata: Metadata
    ) -> None:
        self._channel, self._sessions, self._endpoint, self._name = channel, sessions, endpoint, (method, metadata)
        self._session: ClientSession | None = None
        self._below: ByteStream | None = None
        self._opening: asyncio.Task[ClientSession] | None = None
        self._is_cancelled = False

    async def write(self, message: bytes) -> None:
        try:
            await (self._below or await self._open()).write(message)
        except AuthenticationRequiredError as error:
            raise self._ended(error) from None

    async def read(self) -> bytes:
        try:
            return await (self._below or await self._open()).read()
        except AuthenticationRequiredError as error:
            raise self._ended(error) from None

    def _ended(self, error: AuthenticationRequiredError) -> Exception:
        if self._session is None:  # the log-in itself was refused
            return error
        return session_ended(self._sessions, self._session, self._endpoint, error)

    async def _open(self) -> ByteStream:
        if self._opening is None and not self._is_cancelled:
            self._opening = asyncio.ensure_future(self._sessions.get())
        session = await shared(self._opening, self._endpoint) if self._opening is not None else None
        if session is None or self._is_cancelled:
            raise call_cancelled(self._endpoint)
        if self._below is None:
            method, metadata = self._name
            self._session = session
            self._below = self._channel.open_stream(method, (*session.metadata, *metadata))
        return self._below

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._below is not None:
            self._below.cancel()
        elif self._opening is not None:
            self._opening.cancel()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name[0]}, {self._below!r})"
