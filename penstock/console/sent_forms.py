"""Each plan's form is done once: a second click, a reload or a retry of the browser gets the first one's answer.

A plan's page carries an id that no other has. While the change is made, and afterwards, whoever sends the form again
waits for the same. A change that was refused may be sent again: nothing was done. One without an answer may not,
because it may be done; the person makes a new plan.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.console.failures import UncertainChangeError

REMEMBERED_MAX: Final = 4_096
"""Forms of all browsers; of more the oldest is forgotten."""
FORM_ID_LETTERS_MAX: Final = 64

FormKey = tuple[str, str]
"""A browser's id, and the id of the form."""


class SentForms:
    """The forms that were sent of late, and where their answers lead."""

    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._remembered_max = remembered_max
        self._sent: dict[FormKey, asyncio.Task[str]] = {}

    @staticmethod
    def new_id() -> str:
        """The id of one more plan."""
        return secrets.token_urlsafe(16)

    def answer_of(self, key: FormKey) -> Awaitable[str] | None:
        """The answer of a form that was sent before; None for one that was not, or that has no id."""
        task = self._sent.get(key) if key[1] else None
        return None if task is None else asyncio.shield(task)

    async def once(self, key: FormKey, act: Callable[[], Awaitable[str]]) -> str:
        """Acts, unless this form was sent before; its answer."""
        before = self.answer_of(key)
        if before is not None:
            return await before
        task = asyncio.ensure_future(_as_task(act))
        if key[1]:
            self._remember(key, task)
        return await asyncio.shield(task)  # a browser that goes away stops no change half-way

    def _remember(self, key: FormKey, task: asyncio.Task[str]) -> None:
        while len(self._sent) >= self._remembered_max:
            del self._sent[next(iter(self._sent))]
        self._sent[key] = task
        task.add_done_callback(lambda done: self._forget_refused(key, done))

    def _forget_refused(self, key: FormKey, task: asyncio.Task[str]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, UncertainChangeError):
            self._sent.pop(key, None)

    def __repr__(self) -> str:
        return f"SentForms({len(self._sent)} of {self._remembered_max})"


async def _as_task(act: Callable[[], Awaitable[str]]) -> str:
    return await act()
