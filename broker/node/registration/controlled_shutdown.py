"""Asks the controller to move the leaderships of a broker that stops, until it lets the broker go (KIP-631).

A controller that moves thousands of them may answer late, and another one may take its place. So an answer that does
not come is asked for again, but not for longer than a session: then there is no controller. The question is a heartbeat
(broker_lifecycle.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.errors import ApiError
from penstock.messages.nodes.brokers import BrokerHeartbeatResponse

_log = logging.getLogger(__name__)

POLL_MS = 50
CONTROLLED_SHUTDOWN_MS_MAX = 20_000
"""A broker that leads thousands of partitions needs some seconds. The rest of a stop has its own limit
(`storage/disk/stop_wait.py`); both are shorter than the TimeoutStopSec=2min of the systemd unit."""


async def may_shut_down(
    ask: Callable[[], Awaitable[BrokerHeartbeatResponse]], silent_ms: Callable[[], float], session_timeout_ms: int
) -> bool:
    """True when the controller lets the broker stop. `silent_ms`: the time since the controller's last answer."""
    try:
        async with asyncio.timeout(CONTROLLED_SHUTDOWN_MS_MAX / 1000):
            while True:
                if await _is_granted(ask, silent_ms, session_timeout_ms):
                    return True
                await asyncio.sleep(POLL_MS / 1000)
    except TimeoutError:
        _log.warning("controlled shutdown was not granted within %d ms", CONTROLLED_SHUTDOWN_MS_MAX)
    except ApiError as error:
        _log.warning("controlled shutdown was not granted: %s", error)
    return False


async def _is_granted(
    ask: Callable[[], Awaitable[BrokerHeartbeatResponse]], silent_ms: Callable[[], float], session_timeout_ms: int
) -> bool:
    try:
        answer = await ask()
    except ApiError as error:
        if not error.retriable or silent_ms() >= session_timeout_ms:
            raise
        _log.info("controlled shutdown: %s; asking again", error)
        return False
    return answer.should_shut_down
