"""The access token of one person who is logged in, renewed before it ends as long as the provider allows it.

    ends - RENEW_EARLY_MS    the next request has it renewed, in the background
    ends                     the next request waits for the renewal; without one the log-in is over

Clients of the cluster ask for the token at each log-in of a connection, in a thread of their own. Nobody else has it:
no page, log line or repr. Not here: how the provider is asked (provider.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from penstock.console.openid.errors import OpenIdRefusedError, ProviderAwayError
from penstock.console.openid.provider import GrantedTokens
from penstock.tasks import watch

RENEW_EARLY_MS: Final = 60_000
TRY_AGAIN_MS: Final = 10_000

_log = logging.getLogger(__name__)

Renew = Callable[[GrantedTokens], Awaitable[GrantedTokens]]


class TokenGrant:
    """A person's tokens as they are now."""

    def __init__(self, tokens: GrantedTokens, renew: Renew, now_ms: int) -> None:
        self._renew = renew
        self._renewal: asyncio.Task[None] | None = None
        self._tried_ms: int | None = None
        """The time of the last try, where it has failed or goes on."""
        self._is_refused = False
        self._take(tokens, now_ms)

    def token(self) -> str:
        """The access token that counts now. In any thread."""
        return self._tokens.access_token

    def is_over(self, now_ms: int) -> bool:
        """True once the token has ended and the provider will not renew it."""
        return now_ms >= self.ends_ms and (self._is_refused or not self._tokens.refresh_token)

    async def fresh(self, now_ms: int) -> None:
        """Returns with a token that counts. OpenIdRefusedError once the log-in is over, ProviderAwayError while a token
        that has ended cannot be renewed."""
        if self._is_refused or not self._tokens.refresh_token:
            if now_ms >= self.ends_ms:
                raise OpenIdRefusedError("the log-in has ended")
            return
        if now_ms < self._renew_ms:
            return
        must_wait = now_ms >= self.ends_ms
        if self._renewal is None or self._renewal.done():
            is_soon = self._tried_ms is not None and now_ms - self._tried_ms < TRY_AGAIN_MS
            if is_soon and must_wait:
                raise ProviderAwayError("the identity provider has not renewed the log-in; the console asks again soon")
            if is_soon:
                return
            self._tried_ms = now_ms
            self._renewal = asyncio.create_task(self._renewed(now_ms))
            watch(self._renewal, lambda error: _log.warning("a log-in was not renewed: %s", error))
        if must_wait:
            await self._awaited(self._renewal)

    async def _awaited(self, renewal: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(renewal)
        except asyncio.CancelledError:
            if renewal.cancelled():  # a log-out in another tab has ended it, and nobody has cancelled this request
                raise OpenIdRefusedError("the log-in has ended") from None
            raise

    async def close(self) -> None:
        """Nothing is renewed any more. Idempotent."""
        if self._renewal is not None:
            self._renewal.cancel()
            with suppress(asyncio.CancelledError, OpenIdRefusedError, ProviderAwayError):
                await self._renewal

    async def _renewed(self, now_ms: int) -> None:
        try:
            self._take(await self._renew(self._tokens), now_ms)
        except OpenIdRefusedError:
            self._is_refused = True
            raise

    def _take(self, tokens: GrantedTokens, now_ms: int) -> None:
        life_ms = tokens.life_s * 1000
        self._tokens, self._tried_ms = tokens, None
        self.ends_ms = now_ms + life_ms
        self._renew_ms = self.ends_ms - min(RENEW_EARLY_MS, life_ms // 2)

    def __repr__(self) -> str:
        return f"TokenGrant(ends at {self.ends_ms})"
