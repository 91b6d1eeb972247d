"""Asks a page of the console with an admin client that is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from penstock.clock import ManualClock
from penstock.console.cluster_link import ClusterLink
from penstock.console.fields import Fields
from penstock.console.page import PageAsked
from penstock.console.settings import ConsoleSettings

V = TypeVar("V")
WALL_MS = 1_800_000_000_000


class FakeAdminLink(ClusterLink):
    """A way to a cluster that is one fake."""

    def __init__(self, admin: object) -> None:
        super().__init__("fake:1", {}, ManualClock())
        self._fake: Any = admin

    @property
    def admin(self) -> Any:
        return self._fake


SETTINGS = ConsoleSettings(bootstrap="fake:1", origins=("http://127.0.0.1:1",))


def view_of(
    show: Callable[[PageAsked], Awaitable[V]], admin: object, *, settings: ConsoleSettings = SETTINGS, **fields: str
) -> V:
    """The view of a page."""

    async def ask() -> V:
        return await show(PageAsked(FakeAdminLink(admin), Fields(fields), settings, WALL_MS))

    return asyncio.run(ask())
