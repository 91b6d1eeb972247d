"""A page of the console as a row: its address, its title, the question that it asks, and its template.

One table of rows (page_table.py) makes the routes, the menu, the JSON twins and the tests. `show` returns a frozen
dataclass, from which the template and the JSON twin are made, so that neither says more than the other. The twin of
`/topics` is `/topics.json`. Names of topics, groups and the like are fields of the query, because a group may have any
letters, also "..".
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from penstock.client.admin.async_admin import AsyncAdmin
from penstock.console.cluster_link import ClusterLink
from penstock.console.fields import Fields
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.errors import TimedOutError
from penstock.lazy_dataclass import dataclass

KEPT_MS: Final = 1_000
"""A page that many look at costs the cluster one question a second."""
ASKED_OF_USER_AT_ONCE: Final = 16
PART_SECONDS: Final = 5.0
"""The time for the parts of a page that may be left out: the page itself has ten seconds (cluster_link.py)."""
READS_AT_ONCE: Final = 8
READS_OF_USER_AT_ONCE: Final = 2
ROWS_MAX: Final = 50
"""Rows of a list on one page."""


class PartTime:
    """The time for the parts of one page that may be left out. What one broker holds up is missing, and the page says
    so; the page itself is answered."""

    def __init__(self, seconds: float = PART_SECONDS) -> None:
        self._seconds = seconds
        self._until = asyncio.get_running_loop().time() + seconds

    @asynccontextmanager
    async def part(self) -> AsyncIterator[None]:
        """One part; TimedOutError once the time is over."""
        try:
            async with asyncio.timeout_at(self._until):
                yield
        except TimeoutError:
            raise TimedOutError(f"no answer within {self._seconds:.0f} s") from None

    def __repr__(self) -> str:
        return f"PartTime(until {self._until})"


class UserQuestions:
    """The questions that are on their way, by their users: all sessions of one ask no more at a time, so that a broker
    that hangs holds up the pages that need it, of that user, and no others."""

    def __init__(self, of_user_max: int = ASKED_OF_USER_AT_ONCE) -> None:
        self._of_user_max = of_user_max
        self._asked: Counter[str] = Counter()

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """One more; TimedOutError where too many wait already. Those without a user share a name, and answers."""
        if self._asked[user] >= self._of_user_max:
            raise TimedOutError(f"{self._of_user_max} pages of this user wait for the cluster already; try again")
        self._asked[user] += 1
        try:
            yield
        finally:
            self._asked[user] -= 1
            if not self._asked[user]:
                del self._asked[user]

    def __repr__(self) -> str:
        return f"UserQuestions({self._asked.total()} of {len(self._asked)} users)"


class ReadingTurns:
    """Turns to read records: each reader has tens of MiB of its own, so few read at a time, and two of them for a user
    with any number of sessions."""

    def __init__(self, total: int = READS_AT_ONCE, of_user: int = READS_OF_USER_AT_ONCE) -> None:
        self._total, self._of_user_max = asyncio.Semaphore(total), of_user
        self._of_user: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Waits for a turn; the page's deadline ends the wait."""
        own = self._of_user.get(user) or asyncio.Semaphore(self._of_user_max)
        self._of_user[user] = own
        async with own, self._total:
            yield

    def __repr__(self) -> str:
        return f"ReadingTurns({len(self._of_user)} users)"


@dataclass(frozen=True, slots=True)
class PageAsked:
    """One request for a page: as whom, and with which fields."""

    link: ClusterLink
    fields: Fields
    settings: ConsoleSettings
    wall_ms: int
    user: str = ""
    watch: ClusterWatch | None = None
    """The console's own watch over the cluster; None without one."""
    reading: ReadingTurns = field(default_factory=ReadingTurns)
    """Shared by all pages of a console."""
    has_token: bool = False
    """The user logged in by a token."""

    @property
    def admin(self) -> AsyncAdmin:
        return self.link.admin


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One row of the table."""

    path: str
    title: str
    show: Callable[[PageAsked], Awaitable[Any]]
    template: str
    fields: tuple[str, ...] = ()
    """The fields that its query may have."""
    menu: str = ""
    """Its word in the menu; "" for a page that others lead to."""
    kept_ms: int = KEPT_MS

    @property
    def json_path(self) -> str:
        return f"{self.path}.json"


@dataclass(frozen=True, slots=True)
class Slice:
    """One page of a long list."""

    number: int
    """1 is the first."""
    pages: int
    total: int

    @staticmethod
    def of(total: int, fields: Fields) -> Slice:
        """The part that the field `page` asks for; a number beyond the end is the last one."""
        pages = max(1, -(-total // ROWS_MAX))
        return Slice(min(fields.number("page", 1, 1), pages), pages, total)

    @property
    def rows(self) -> slice:
        """The rows of it."""
        return slice((self.number - 1) * ROWS_MAX, self.number * ROWS_MAX)


def address_of(path: str, **fields: object) -> str:
    """The address of a page, with its fields percent-encoded; None and "" are left out."""
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
