"""The listeners of a broker that speak Kafka's protocol: beside gRPC's (`BrokerListeners` of network/listeners.py).

They share with the other listeners for clients what all have together: the request channel, the memory, the count of
connections, the names of clients. Not here: a listener (connection/kafka_listener.py), an API (apis/).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from broker.config.node_config import NodeConfig
from broker.connections.listener_limits import listener_limits
from broker.kafka.api_rows import api_rows
from broker.kafka.connection.bound_sockets import bind_on_loop
from broker.kafka.connection.element_room import ElementBudgets
from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.connection.kafka_listener import Bind, KafkaListener
from broker.kafka.connection.kafka_wire import RequestCounts
from broker.kafka.connection.served_connection import ServedConnection
from broker.kafka.parts import PlanParts
from broker.network.client_names import ClientNames
from broker.network.listeners import BrokerService
from broker.tls.material import NO_CERTIFICATES, Certificates
from penstock.clock import Clock
from penstock.throttled_lines import CLIENTS_SUBJECTS_MAX, ThrottledLines


class KafkaListeners:
    """The Kafka listeners of one broker; none, if its configuration names none."""

    def __init__(
        self,
        config: NodeConfig,
        service: BrokerService,
        clock: Clock,
        bind: Bind = bind_on_loop,
        certificates: Certificates = NO_CERTIFICATES,
    ) -> None:
        self.parts = PlanParts(config, service)
        self.rows = api_rows(self.parts)
        self._service, self._lines = service, ThrottledLines(clock.now_ms, CLIENTS_SUBJECTS_MAX)
        self.decoders, self.elements = KafkaCounts(), ElementBudgets()
        self.connections: Mapping[str, KafkaListener] = {
            name: KafkaListener(
                name=name,
                endpoint=config.listener(name),
                limits=limits,
                shared=service.shared,
                serve=self._serve,
                clock=clock,
                on_fatal=service.on_fatal,
                bind=bind,
                certificates=certificates.of(name),
                quotas=service.address_quotas,
            )
            for name in config.kafka_listeners
            for limits in (listener_limits(config, name, service.client_connections_max),)
        }

    def _serve(self, connection: FrameConnection, listener: str) -> ServedConnection:
        counts = self.decoders.counts
        return ServedConnection(
            connection=connection,
            listener=listener,
            rows=self.rows,
            service=self._service,
            counts=counts,
            lines=self._lines,
            elements=self.elements,
        )

    @property
    def clients(self) -> ClientNames:
        return self._service.names

    def open(self) -> None:
        for listener in self.connections.values():
            listener.open()

    async def start(self) -> None:
        for listener in self.connections.values():
            await listener.start()

    async def serving(self, is_serving: bool) -> None:
        """Kafka's protocol has no health service."""

    async def stop(self) -> None:
        await asyncio.gather(*(listener.stop() for listener in self.connections.values()))

    def __repr__(self) -> str:
        return f"KafkaListeners({', '.join(self.connections)})"


class KafkaCounts:
    """`Decoders` of network/listeners.py."""

    def __init__(self) -> None:
        self.counts = RequestCounts()

    def received_bytes(self) -> Counter[str]:
        return self.counts.received_bytes

    def refused(self) -> Counter[str]:
        return self.counts.refused
