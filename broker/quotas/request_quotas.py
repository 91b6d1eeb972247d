"""Takes from a client's quotas: bytes of a Produce when it has come, bytes of an answer to a fetch and the time of
every request when it is answered.

Bytes of a Produce count before it is appended, so that the connection is not read from that moment on. Time is that of
its handler on the event loop. Not here: how long a client waits (client_quotas.py), and the wait
(network/connection_loop.py).
"""

from __future__ import annotations

from typing import Final

from broker.network.request_channel import Request
from broker.quotas.client_quotas import ClientQuotas
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.errors import ResourceExhaustedError
from penstock.messages.apis import APIS
from penstock.messages.security.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from penstock.types import ListenerType

_FETCHES: Final = frozenset(("FetchConsumer", "Fetch"))
"""The name at gRPC's listener, and at that of Kafka's protocol."""
_CHANGES: Final = frozenset(api.name for api in APIS.values() if api.changes_partitions)
_PERCENT_OF_NS: Final = 100 / 1_000_000_000


class RequestQuotas:
    """The quotas of one broker, for its connections (`broker.network.connection_loop.Quotas`)."""

    def __init__(self, clients: ClientQuotas) -> None:
        self.clients = clients
        self.is_active = False  # an attribute of its own: every request looks at it, also where nobody has a quota

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        self.clients.published(delta, image)
        self.is_active = self.clients.is_active

    def came(self, request: Request, size_bytes: int, now_ns: int) -> int:
        if request.api != "Produce":
            return 0
        return self._take(PRODUCER_BYTE_RATE, request, size_bytes, now_ns)

    def answered(self, request: Request, worked: Request, size_bytes: int, now_ns: int) -> int:
        work_ns = max(0, worked.handled_ns - worked.dequeued_ns)
        throttle_ms = self._take(REQUEST_PERCENTAGE, request, work_ns * _PERCENT_OF_NS, now_ns)
        if request.api in _FETCHES:
            throttle_ms = max(throttle_ms, self._take(CONSUMER_BYTE_RATE, request, size_bytes, now_ns))
        return throttle_ms

    def owed(self, request: Request, now_ns: int) -> int:
        """A quota of changes holds up changes alone: what else the client does goes on."""
        user, now_ms = _user(request), now_ns // 1_000_000
        owed_ms = self.clients.owed(REQUEST_PERCENTAGE, user, request.client_id, now_ms)
        if request.api in _CHANGES:
            owed_ms = max(owed_ms, self.clients.owed(CONTROLLER_MUTATION_RATE, user, request.client_id, now_ms))
        return owed_ms

    def changed(self, request: Request, changes: int) -> None:
        """Counts the partitions that a request of the node's own asks to make or delete. While its client's wait for
        earlier changes lasts, a call of gRPC and a strict request of Kafka's get ResourceExhaustedError. A call has no
        connection that could be left unread; a strict client waits after a refusal, and not after a change that was
        made (KIP-599). Other requests are always let through, and their connections are left unread after them."""
        is_of_grpc = request.caller.listener_type is ListenerType.GRPC
        if changes and (is_of_grpc or request.is_strict):
            now_ms = request.dequeued_ns // 1_000_000
            owed_ms = self.clients.owed(CONTROLLER_MUTATION_RATE, _user(request), request.client_id, now_ms)
            if owed_ms:
                request.throttle_ms = owed_ms
                raise ResourceExhaustedError(
                    f"{request.api}: the client's {CONTROLLER_MUTATION_RATE} is used up for another "
                    f"{owed_ms / 1_000:.1f} s: try again after that, or raise the quota"
                )
        throttle_ms = self._take(CONTROLLER_MUTATION_RATE, request, changes, request.dequeued_ns)
        if is_of_grpc or not request.is_strict:
            request.throttle_ms = throttle_ms

    def _take(self, key: str, request: Request, amount: float, now_ns: int) -> int:
        return self.clients.take(key, _user(request), request.client_id, amount, now_ns // 1_000_000)

    def __repr__(self) -> str:
        return f"RequestQuotas({self.clients!r})"


def _user(request: Request) -> str:
    return request.caller.principal.partition(":")[2]
