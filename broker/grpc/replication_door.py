"""The gRPC door of the inter-broker listener: only followers use it, and they only fetch. An edge.

A fetch under a replica's id counts as its acknowledgement, so clients have no access to this door. Its streams are the
broker door's, with the same request path behind them; the limits on clients' connections do not count them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from broker.grpc.client_door import BrokerDoor


class ReplicationDoor:
    """Serves `penstock.v1.Replication`."""

    def __init__(self, door: BrokerDoor) -> None:
        self._door = door

    async def Fetch(self, request_iterator: AsyncIterator[Any], context: grpc.aio.ServicerContext) -> None:
        await self._door.serve_replica(context)
