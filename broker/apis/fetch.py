"""Fetch: for consumers up to the high watermark, here or at a follower (KIP-392), for followers up to the log end.

Checks the fetcher, then hands the request to its fetch session (fetch_session.py), which answers now or parks it. A
follower must be a registered broker of this cluster and send its registered broker epoch, because its fetch offset
counts as an acknowledgement. `leader/follower_fetch.py` checks its epoch, and that it is a replica of the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.apis.api_parts import ApiParts
from broker.apis.fetch_sessions.fetch_session import FetchSession
from broker.apis.router import Handle
from broker.apis.served import NODES_ALONE, Served
from broker.authorization.rules.ruling import free
from broker.network.request_channel import Request
from broker.replication.leader.follower_fetch import check_fetcher_epoch
from penstock.errors import InconsistentClusterIdError, InvalidRequestError
from penstock.messages.client_apis import FETCH
from penstock.messages.fetch import RACK_LENGTH_MAX, FetchRequest
from penstock.types import CONSUMER_REPLICA_ID


class FetchApi:
    """Handles fetch requests; `request.session` is its fetch session."""

    def __init__(
        self,
        registered_epochs: Callable[[], Mapping[int, int]],
        cluster_id: str,
        fetched: Callable[[int, bool], None] = lambda broker_id, serves_consumers: None,
    ) -> None:
        """`registered_epochs()` has the epoch of every registered broker, as the metadata has it now; `fetched` is told
        of each follower's fetch."""
        self._registered_epochs = registered_epochs
        self._fetched = fetched
        self._cluster_id = cluster_id

    def handle(self, request: Request, body: FetchRequest) -> None:
        if len(body.rack_id) > RACK_LENGTH_MAX:
            raise InvalidRequestError(f"rack_id has {len(body.rack_id)} characters; at most {RACK_LENGTH_MAX}")
        session = request.session
        if not isinstance(session, FetchSession):
            raise InvalidRequestError("a fetch must have a fetch session")
        if body.replica_id != CONSUMER_REPLICA_ID:
            self._check_replica(body)
            self._fetched(body.replica_id, body.serves_consumers)
        session.handle(request, body)

    def _check_replica(self, body: FetchRequest) -> None:
        if body.cluster_id != self._cluster_id:
            raise InconsistentClusterIdError(
                f"replica {body.replica_id} is of cluster {body.cluster_id!r}; this is cluster {self._cluster_id}"
            )
        check_fetcher_epoch(self._registered_epochs(), body.replica_id, body.broker_epoch)


def _handler(parts: ApiParts) -> Handle:
    return FetchApi(parts.registered_epochs, parts.cluster_id, parts.fetched).handle


SERVED: Final = (
    Served(api=FETCH, called="FetchConsumer", rule=free, make=_handler, judged_in_parts=True),
    Served(api=FETCH, called="FetchFollower", rule=NODES_ALONE, make=_handler),
)
