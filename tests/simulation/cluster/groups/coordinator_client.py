"""A connection to the coordinator of one group or transactional id, found by Kafka's protocol, and asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest
from penstock.types import Endpoint
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.kafka.kafka_client import KafkaClient

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

LOADS, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ELSEWHERE = frozenset({LOADS, NOT_AVAILABLE, NOT_COORDINATOR})
FIND_VERSION = 4
GROUP, TRANSACTION = 0, 1


class CoordinatorClient:
    """See the module."""

    def __init__(self, clients: Clients, name: str, key: str, key_type: int = GROUP) -> None:
        self._clients, self._key, self._key_type = clients, key, key_type
        self.client = KafkaClient(clients, name)
        self._endpoint: Endpoint | None = None

    def forget(self) -> None:
        """The next question looks for the coordinator first."""
        self._endpoint = None

    async def ask(self, message: Any, version: int) -> Any:
        """The answer; Broken when there is none, or no coordinator."""
        answer = await (await self._connection()).ask(message, version)
        code = getattr(answer, "error_code", 0)
        if code in ELSEWHERE:
            self.forget()
            raise Broken(f"error code {code}")
        return answer

    async def _connection(self) -> Connection:
        if self._endpoint is None:
            asked = await self.client.connection(self.client.draw.choice(list(self._clients.kafka_endpoints)))
            question = FindCoordinatorRequest(coordinator_keys=[self._key], key_type=self._key_type)
            found = (await asked.ask(question, FIND_VERSION)).coordinators[0]
            if found.error_code:
                self._clients.refused[f"kafka coordinator {found.error_code}"] += 1
                raise Broken(f"error code {found.error_code}")
            self._endpoint = Endpoint(found.host, found.port)
        return await self.client.connection(self._endpoint)

    def __repr__(self) -> str:
        return f"CoordinatorClient({self._key})"
