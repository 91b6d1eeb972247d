"""A client whose calls of one API get some answers, and after that none before their time is over; in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.wire.connection import Connection
from penstock.errors import RequestTimedOutError
from penstock.messages.api import Api


def cut_off_after(answers: int, api: Api[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All connections together get so many answers."""
    call, left = Connection.call, answers

    async def counted(self: Connection, asked: Api[Any, Any], request: Any, timeout_ms: int) -> Any:
        nonlocal left
        if asked is api:
            left -= 1
            if left < 0:
                await asyncio.sleep(timeout_ms / 1000)
                raise RequestTimedOutError(f"{self.endpoint} is late")
        return await call(self, asked, request, timeout_ms)

    monkeypatch.setattr(Connection, "call", counted)
