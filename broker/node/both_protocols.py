"""The listeners of a node for both protocols: gRPC's listeners and Kafka's as one (`Listeners` of
broker/network/listeners.py)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from broker.config.node_config import NodeConfig
from broker.network.client_names import ClientNames
from broker.network.listeners import (
    BrokerListeners,
    BrokerService,
    Connections,
    ControllerService,
    Decoders,
    Listener,
    NodeListeners,
)

MakeListeners = Callable[[NodeConfig, BrokerService], BrokerListeners]


class BothProtocols:
    """The controller's listener is the first one's: it speaks gRPC."""

    def __init__(self, grpc: NodeListeners, kafka: MakeListeners) -> None:
        self._grpc, self._kafka = grpc, kafka

    def broker(self, config: NodeConfig, service: BrokerService) -> BrokerListeners:
        grpc = self._grpc.broker(config, service)
        return JoinedListeners((grpc, self._kafka(config, service))) if config.kafka_listeners else grpc

    def controller(self, config: NodeConfig, service: ControllerService) -> Listener:
        return self._grpc.controller(config, service)

    def __repr__(self) -> str:
        return f"BothProtocols({self._grpc!r})"


class JoinedListeners:
    """Several sets of listeners as one."""

    def __init__(self, sets: Sequence[BrokerListeners]) -> None:
        self._sets = tuple(sets)
        self.decoders: Decoders = _JoinedDecoders([one.decoders for one in sets])

    @property
    def clients(self) -> ClientNames:
        """The sets count the names of their clients together."""
        return self._sets[0].clients

    @property
    def connections(self) -> Mapping[str, Connections]:
        return {name: found for one in self._sets for name, found in one.connections.items()}

    def open(self) -> None:
        for one in self._sets:
            one.open()

    async def start(self) -> None:
        for one in self._sets:
            await one.start()

    async def serving(self, is_serving: bool) -> None:
        for one in self._sets:
            await one.serving(is_serving)

    async def stop(self) -> None:
        await asyncio.gather(*(one.stop() for one in self._sets))

    def __repr__(self) -> str:
        return f"JoinedListeners({self._sets!r})"


class _JoinedDecoders:
    def __init__(self, of: Sequence[Decoders]) -> None:
        self._of = of

    def received_bytes(self) -> Counter[str]:
        return sum((one.received_bytes() for one in self._of), Counter[str]())

    def refused(self) -> Counter[str]:
        return sum((one.refused() for one in self._of), Counter[str]())
