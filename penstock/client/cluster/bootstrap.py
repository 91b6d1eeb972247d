"""Finds the first broker of a cluster: every bootstrap address at once, again and again, until one answers.

A service may start with its broker, or before it, so an address that refuses, does not resolve or does not answer is
asked again until the time is up. An address is given up only where asking again does not help: something else listens
there, its TLS does not fit, or the broker refuses this client. A broker that is cut off from the others answers, too:
an old answer counts only if no better one comes within OLD_ANSWER_MS. Not here: what the answer means (cluster.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from penstock.backoff import Backoff
from penstock.client.descriptors import NO_DESCRIPTORS
from penstock.client.wire.tls_words import TLS_FAILED
from penstock.client.wire.transport import NO_CLIENT_LISTENER
from penstock.clock import Clock
from penstock.errors import ApiError, AuthenticationFailedError, AuthorizationFailedError, BootstrapError
from penstock.messages.metadata import MetadataResponse
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

Ask = Callable[[Endpoint, int], Awaitable[MetadataResponse]]
"""One question to one address; the number is the time that it may take, in ms."""

IN_VAIN = (NO_CLIENT_LISTENER, TLS_FAILED)
"""Words in the text of an error that retrying does not mend."""
OLD_ANSWER_MS = 500
"""The time for which an old answer waits for a better one."""


class Bootstrap:
    """One first contact."""

    def __init__(
        self,
        addresses: Sequence[Endpoint],
        ask: Ask,
        is_old: Callable[[MetadataResponse], bool],
        limit_ms: int,
        clock: Clock,
        backoff: Backoff,
    ) -> None:
        self._addresses = addresses
        self._ask = ask
        self._is_old = is_old
        self._limit_ms = limit_ms
        self._clock = clock
        self._backoff = backoff
        self._deadline_ms = clock.now_ms() + limit_ms
        self._failures: dict[Endpoint, str] = {}
        self._refusal: ApiError | None = None

    async def first_answer(self) -> MetadataResponse:
        """The first answer of any address; BootstrapError, with the reason of each, if no answer comes in time.

        Raises the broker's own error if a broker refuses the user: it does not help to ask the others for long.
        """
        asked = [asyncio.ensure_future(self._until_answered(address)) for address in self._addresses]
        old: MetadataResponse | None = None
        try:
            while pending := [task for task in asked if not task.done()]:
                left_ms = max(self._deadline_ms - self._clock.now_ms(), 0)
                limit_ms = left_ms if old is None and self._refusal is None else min(left_ms, OLD_ANSWER_MS)
                ended, _ = await asyncio.wait(pending, timeout=limit_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
                for answer in [task.result() for task in pending if task in ended]:
                    if answer is not None and not self._is_old(answer):
                        return answer
                    old = _newer(old, answer)
                if not ended:
                    break
            if old is not None:
                return old
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if self._refusal is not None:
            raise self._refusal
        silent = f"no answer within {self._limit_ms} ms"
        reasons = "; ".join(self._failures.get(address, f"{address}: {silent}") for address in self._addresses)
        if NO_DESCRIPTORS in reasons or TLS_FAILED in reasons:
            raise BootstrapError(f"no bootstrap address could be asked: {reasons}")
        raise BootstrapError(
            f"no bootstrap address answered as a Penstock broker: {reasons}; "
            "start a node, or give the BROKER listener of one that runs (9192 as a rule; 9092 is for Kafka's clients)"
        )

    async def _until_answered(self, address: Endpoint) -> MetadataResponse | None:
        """The answer of one address; None when asking it again does not help."""
        attempt = 0
        while True:
            attempt += 1
            left_ms = max(self._deadline_ms - self._clock.now_ms(), 1)
            try:
                return await self._ask(address, left_ms)
            except ApiError as error:
                self._failures[address] = str(error)
                if isinstance(error, AuthenticationFailedError | AuthorizationFailedError):
                    self._refusal = self._refusal or error
                if not error.retriable or any(words in str(error) for words in IN_VAIN):
                    return None
            if attempt == 1:
                _log.info("%s; asked again for up to %d ms", self._failures[address], left_ms)
            await asyncio.sleep(max(self._backoff.wait_ms(attempt), 1) / 1000)

    def __repr__(self) -> str:
        return f"Bootstrap({','.join(map(str, self._addresses))}, failures={len(self._failures)})"


def _newer(one: MetadataResponse | None, other: MetadataResponse | None) -> MetadataResponse | None:
    if one is None or other is None:
        return one or other
    return other if other.metadata_offset > one.metadata_offset else one
