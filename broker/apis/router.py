"""Gives each request to its API, by its name, once its caller may ask: the one place where that is checked, for every
door, and where administrative acts begin to be audited. Not here: the list of the APIs (served_apis.py), who may do
what (authorization/), and what is told of an act (audit/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.network.request_channel import Request
from penstock.errors import UnsupportedVersionError

Handle = Callable[[Request, Any], None]


class Router:
    """Gives each request to the API of its name."""

    def __init__(
        self,
        apis: Mapping[str, Handle],
        passes: Callable[[Request], bool] | None = None,
        audit: Callable[[Request], None] | None = None,
    ) -> None:
        """`passes` is an authorizer's: True if the request goes on, False if it was answered. `audit` is shown each
        request before."""
        self._apis = dict(apis)
        self._passes, self._audit = passes, audit

    def handle(self, request: Request) -> None:
        api = self._apis.get(request.api)
        if api is None:
            raise UnsupportedVersionError(f"{request.api} is not an API of this broker")
        if self._audit is not None:
            self._audit(request)
        if self._passes is None or self._passes(request):
            api(request, request.body)
