"""Gives each request to its API, by its name, once its caller may ask for it, and begins the audit of administrative
acts. Every request of every listener passes here, with the rights that its caller has at that moment.

Three looks stand beside this check, and none of them replaces it:

    before   a plan of Kafka's protocol judges each name before it is looked up: the answer is Kafka's then, and does
             not tell which names there are (`broker/kafka/parts.py`). A request of gRPC has no plan
    before   the converter works on no batch of a topic that the caller may not write to (`produce_conversion.py`)
    after    the handlers of Produce and Fetch judge each partition when they come to it, since its bytes have their
             place in the request, and a session has partitions of earlier requests (`rules/records.py`)

A right to a transactional id or a group that a plan has judged is judged here again: rights may have changed while the
request waited for a partition. Not here: the list of the APIs (served_apis.py), who may do what (authorization/), and
what is told of an act (audit/).
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
