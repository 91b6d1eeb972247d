"""The admin client without its face: its connections, the deadline of each call, and their end.

Not here: the calls. Each subject has a module of functions (topic_views.py, topic_changes.py, configs.py, elections.py,
reassignments.py, …) that take the cluster and a deadline; async_admin.py names them for users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.client.cluster.arguments import MAX_INT32
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.environment import ClientEnvironment
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.options.config import admin_config
from penstock.client.options.options import parse_bootstrap
from penstock.errors import ClientClosedError


class AdminCore:
    """The connections of one admin client."""

    def __init__(
        self, bootstrap: str | Sequence[str], options: Mapping[str, Any], environment: ClientEnvironment
    ) -> None:
        config = admin_config(options)
        self.client_id, self._timeout_ms = config.client_id, config.default_api_timeout_ms
        self._clock, self._random = environment.clock, environment.random
        config = replace(config, bootstrap_timeout_ms=min(config.bootstrap_timeout_ms, self._timeout_ms))
        self.cluster = ClusterClient(parse_bootstrap(bootstrap, "Admin"), config, environment)
        self.closed = False
        self._is_bound = False

    def bind(self, face: object) -> None:
        """Binds the client to the running loop. It is closed once its user drops this face."""
        if self.closed:
            raise ClientClosedError("this admin client is closed; make a new one")
        if not self._is_bound:
            self._is_bound = True
            close_when_forgotten(face, repr(face), self, OnLoop(asyncio.get_running_loop()))

    async def start(self, face: object) -> None:
        """Reaches the cluster; BootstrapError when it cannot."""
        self.bind(face)
        await self.cluster.wait_ready()

    async def begin(self) -> int:
        """Reaches the cluster for a call; the deadline of that call."""
        deadline_ms = self.deadline_ms()
        await self.cluster.wait_ready()
        return deadline_ms

    def deadline_ms(self) -> int:
        """The time at which a call that begins now is out of time."""
        return self._clock.now_ms() + self._timeout_ms

    def wall_ms(self) -> int:
        """The time of day."""
        return self._clock.wall_ms()

    def random_bytes(self, count: int) -> bytes:
        """Random bytes for salts: never the same twice, and no secret."""
        return self._random.randbytes(count)

    def left_ms(self, deadline_ms: int) -> int:
        """The time until then, at least 1."""
        return min(max(deadline_ms - self._clock.now_ms(), 1), MAX_INT32)

    def unacked_records(self) -> int:
        """An admin client sends none."""
        return 0

    async def close_forgotten(self) -> None:
        """The end of an admin client that its user dropped."""
        await self.close()

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        self.closed = True
        await self.cluster.close()

    def __repr__(self) -> str:
        return f"AdminCore({self.cluster!r})"
