"""The port for a node's requests to other nodes: quorum, controller and broker calls, and fetch streams.

gRPC is one implementation (`broker/grpc/outgoing_calls.py`); tests run the same one on the objects of a simulated
network (`tests/simulation/cluster/rpc.py`). Not here: the content of requests and answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.replication.follower.fetcher_ports import ReplicaFetchStream
from penstock.types import Endpoint
from raft.messages import Request, Response


class NodeTransport(Protocol):
    """All ways out of one node. Its `send` is raft's `QuorumTransport`."""

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        """One quorum call of a voter; NetworkError or another typed error when there is no answer."""
        ...

    async def call_controller(self, node_id: int, request: Any, timeout_ms: int) -> Any:
        """One call of the controller on `node_id`; its answer, or its typed error."""
        ...

    async def call_broker(self, broker_id: int, request: Any, timeout_ms: int) -> Any:
        """One call of another broker, at its listener for brokers; its answer, or its typed error."""
        ...

    def open_fetch_stream(self, broker_id: int) -> ReplicaFetchStream:
        """A fetch stream to another broker; NetworkError when its address is not known."""
        ...

    async def close(self) -> None:
        """Ends everything that is open."""
        ...


class MakeTransport(Protocol):
    """Makes the transport of one node."""

    def __call__(
        self,
        voter_endpoint: Callable[[int], Endpoint | None],
        broker_endpoint: Callable[[int], Endpoint | None],
        message_bytes_max: int,
        /,
    ) -> NodeTransport:
        """The address of a node is looked up at each call: a voter's by `voter_endpoint`, a broker's by
        `broker_endpoint`."""
        ...
