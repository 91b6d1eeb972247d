"""Gives each request to its API, by its name. Not here: the list of the APIs (broker_parts.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.network.request_channel import Request
from penstock.errors import UnsupportedVersionError

Handle = Callable[[Request, Any], None]


class Router:
    """Gives each request to the API of its name."""

    def __init__(self, apis: Mapping[str, Handle]) -> None:
        self._apis = dict(apis)

    def handle(self, request: Request) -> None:
        api = self._apis.get(request.api)
        if api is None:
            raise UnsupportedVersionError(f"{request.api} is not an API of this broker")
        api(request, request.body)
