"""Waits for room on a full disk, in the middle of a Ready: to the quorum that is a slow disk.

The refused call is repeated until the disk accepts it or the node stops. A proposer must not wait that long: it reads
`error`. `broker/quorum/metadata_log.py` decides what is a lack of room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from raft.driver.protocols import NoRoomError

_log = logging.getLogger(__name__)

RETRY_MS = 500
"""How often a full disk is asked for room."""

T = TypeVar("T")


class Room:
    """Room on the disk under one node's part of the quorum."""

    def __init__(self, node_id: int, is_stopping: Callable[[], bool]) -> None:
        self._node_id = node_id
        self._is_stopping = is_stopping
        self.error: NoRoomError | None = None
        """The disk's last error; None while nothing waits for it."""

    async def until_taken(self, how: Callable[..., Awaitable[T]], call: Callable[..., T], *args: object) -> T:
        """Call it, again and again until the disk has room for it or the node stops."""
        while True:
            try:
                result = await how(call, *args)
            except NoRoomError as error:
                if self._is_stopping():
                    raise
                if self.error is None:
                    _log.error("node %d waits for room on the disk of its metadata log: %s", self._node_id, error)
                self.error = error
                await asyncio.sleep(RETRY_MS / 1000)
            else:
                self.error = None
                return result

    def __repr__(self) -> str:
        return f"Room(node {self._node_id}, {self.error or 'enough'})"
