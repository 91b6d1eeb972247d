"""Plans and performs a change of the console with an admin client that is a fake."""

from __future__ import annotations

import asyncio
import html
import shlex
from typing import Any

from penstock.console.change import ChangePlan
from penstock.console.change_table import CHANGES
from penstock.console.fields import Fields
from penstock.console.page import PageAsked
from tests.support.console_pages import SETTINGS, WALL_MS, FakeAdminLink

BY_PATH = {change.path: change for change in CHANGES}


class ChangeDesk:
    """One user's changes of a cluster that is a fake."""

    def __init__(self, admin: object, user: str = "") -> None:
        self.admin: Any = admin
        self.user = user

    def _asked(self, fields: dict[str, str]) -> PageAsked:
        return PageAsked(FakeAdminLink(self.admin), Fields(fields), SETTINGS, WALL_MS, self.user)

    def plan(self, path: str, **fields: str) -> ChangePlan:
        """The plan that a form shows."""
        return asyncio.run(_awaited(BY_PATH[path].plan(self._asked(fields))))

    def perform(self, path: str, **fields: str) -> str:
        """The change; the address of the page that shows it."""
        return asyncio.run(_awaited(BY_PATH[path].perform(self._asked(fields))))

    def do_as_planned(self, path: str, **fields: str) -> str:
        """The change with everything that its plan carries in the form."""
        return self.perform(path, **{**fields, **self.plan(path, **fields).fixed})


async def _awaited(one: Any) -> Any:
    return await one


def words_of(plan: ChangePlan) -> list[str]:
    """The words of a plan's command, without the program and the way to the cluster."""
    words = shlex.split(html.unescape(plan.command))
    at = words.index("--bootstrap")
    return words[1:at] + words[at + 2 :]
