"""One API as a broker serves it: the right that it needs, its handler, and how it is counted and audited.

The wire's half of an API is its row in penstock/messages/. Each file here exports its rows as SERVED; served_apis.py
has all of them, and the router, the authorizer, the audit and the quotas read it. A row without a rule does not start.
Not here: the parts that handlers stand on (api_parts.py), and Kafka's keys and versions (broker/kafka/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.apis.api_parts import ApiParts
from broker.apis.router import Handle
from broker.authorization.rules.ruling import Rule
from broker.network.request_channel import Request
from broker.quotas.partition_changes import Count
from penstock.lazy_dataclass import dataclass
from penstock.messages.api import Api

NODES_ALONE: Final = None
"""The rule of an API that no client may ask, whatever its rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`make` makes the handler once, when the broker is made."""

    api: Api[Any, Any]
    rule: Rule | None
    make: Callable[[ApiParts], Handle]
    called: str = ""
    """The name of its requests on their way through the node, where that is not the API's."""
    counts: Count | None = None
    """The partitions that a request makes or deletes, for the quotas of clients (KIP-599)."""
    judged_in_parts: bool = False
    """The handler judges each partition, or each topic of a group, when it comes to it."""
    audited_often: bool = False
    """Programs ask for it, too, some of them every second: the audit has one line for each group in a time."""

    def __post_init__(self) -> None:
        if (self.counts is not None) != self.api.changes_partitions:
            raise ValueError(f"{self.api.name} changes partitions and does not count them, or counts none")

    @property
    def name(self) -> str:
        return self.called or self.api.name

    def handler(self, parts: ApiParts) -> Handle:
        """The handler. Changes of partitions count once the authorizer has let them through, whether the controller
        makes them or not."""
        handle, count = self.make(parts), self.counts
        if count is None:
            return handle
        quotas, image = parts.quotas, parts.image

        def counted(request: Request, body: Any) -> None:
            if quotas.is_active:
                quotas.changed(request, count(body, image()))
            handle(request, body)

        return counted


def forwarded(api: Api[Any, Any], *, rule: Rule, counts: Count | None = None) -> Served:
    """An API that the active controller decides."""
    return Served(api=api, rule=rule, make=lambda parts: parts.forwarded.handler(api), counts=counts)
