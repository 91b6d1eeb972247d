"""Nodes of a cluster in memory as hosts of a fake network, so that the clients that users import reach them.

    network = FakeNetwork()
    open_to_clients(cluster, network)
    AsyncProducer(str(cluster.endpoint(0)), environment=fake_environment(network))

The bytes of a client are decoded and encoded as at a node's gRPC door; between them is the whole node.
"""

from __future__ import annotations

from functools import partial

from penstock.messages.apis import APIS
from penstock.types import CLIENT_LISTENER, Endpoint
from penstock.wire import streams
from penstock.wire.message_codec import request_codec, response_codec
from tests.support.fake_network import FakeNetwork, ServedStream
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_network import MemoryFetchStream, MemoryNetwork

SERVICE = "/penstock.v1.Broker/"


def open_to_clients(cluster: MemoryCluster, network: FakeNetwork, listener: str = CLIENT_LISTENER) -> None:
    """Lets each node that has this listener listen on the clients' network, at the address that it advertises."""
    for index in range(len(cluster.disks)):
        config = cluster.config(index)
        if listener in config.listeners:
            advertised = config.advertised_listeners[listener]
            network.listen(advertised, NodeService(cluster.network, config.listener(listener)))


class NodeService:
    """One node's door (fake_network.Service)."""

    def __init__(self, network: MemoryNetwork, endpoint: Endpoint) -> None:
        self._network = network
        self._endpoint = endpoint

    def is_stream(self, method: str) -> bool:
        return method in (SERVICE + "Produce", SERVICE + "Fetch")

    async def call(self, method: str, request: bytes) -> bytes:
        api = APIS[method.removeprefix(SERVICE)]
        body = request_codec(api).decode(request)
        answer: bytes = await self._network.ask(self._endpoint, api.name, body, response_codec(api).encode)
        return answer

    async def stream(self, method: str, stream: ServedStream) -> None:
        if method == SERVICE + "Produce":
            await self._produce(stream)
        else:
            await self._fetch(stream)

    async def _produce(self, stream: ServedStream) -> None:
        while True:
            header, body = streams.produce_request_from_bytes(await stream.read())
            body.answer_in_parts = False  # requests are asked one at a time here, so each gets one answer
            encode = partial(streams.produce_response_to_bytes, header.correlation_id)
            await stream.write(await self._network.ask(self._endpoint, "Produce", body, encode))

    async def _fetch(self, stream: ServedStream) -> None:
        session = MemoryFetchStream(self._network, self._endpoint, f"broker at {self._endpoint}")
        try:
            while True:
                header, request = streams.fetch_request_from_bytes(await stream.read())
                session.send(header.correlation_id, request)
                await stream.write(streams.fetch_response_to_bytes(*await session.receive()))
        finally:
            session.cancel()
