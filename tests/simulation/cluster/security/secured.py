"""A secured cluster's configuration, its users, and everybody who tries what is forbidden.

Clients log in at each listener for clients, at Kafka's for as long as their connection. Between nodes there are
certificates: the network tells each server the node whose certificate a connection has, as TLS would. TLS itself is not
simulated.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from metadata.records import UserScramCredentialRecord
from metadata.scram import scram_record
from penstock.certs.node_identity import NodeIdentity
from penstock.client.environment import ClientEnvironment
from penstock.client.wire.transport import Channel
from penstock.sasl.credentials import ITERATIONS_MIN, SALT_BYTES, ScramCredential, ScramMechanism
from penstock.types import Endpoint, TopicPartition
from tests.simulation.cluster.clients.readers import opened
from tests.simulation.cluster.security.guest import Guest
from tests.simulation.cluster.security.impostor import Impostor
from tests.simulation.cluster.security.oracle import SecurityOracle
from tests.simulation.cluster.security.registrar import TOPICS, Registrar

if TYPE_CHECKING:
    from tests.simulation.cluster.plan import Plan, SecurityPlan
    from tests.simulation.cluster.workload import Clients

ROOT, WORKER, TENANT = "root", "worker", "tenant"
OF_CLIENTS = ("BROKER", "OUTSIDE", "KAFKA")
PASSWORDS = {ROOT: "root's own", WORKER: "worker's own"}
TENANTS_PASSWORD = "tenant's own"


def guests_of(plan: SecurityPlan) -> list[str]:
    return [f"guest-{number}" for number in range(plan.guests)]


def security_config(plan: Plan, listeners: Sequence[str]) -> dict[str, object]:
    """The keys of one node with these listeners. Nobody reads the files."""
    if plan.security is None:
        return {}
    protocols = {"INTERNAL": "SSL", "CONTROLLER": "SSL", **dict.fromkeys(OF_CLIENTS, "SASL_PLAINTEXT")}
    named = {"INTERNAL", "CONTROLLER", "BROKER", *(listener.partition(":")[0] for listener in listeners)}
    return {
        "listener.security.protocol.map": [f"{name}:{protocols[name]}" for name in sorted(named & protocols.keys())],
        "ssl.keystore.location": "/machine/node.pem",
        "ssl.truststore.location": "/machine/ca.pem",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": f"User:{ROOT}",
        "connections.max.reauth.ms": plan.security.session_ms,
        **({"listener.name.kafka.connections.max.reauth.ms": 0} if "KAFKA" in named else {}),
    }


def certificate(cluster_id: str, node_id: int) -> str:
    """The URI in the certificate of a node."""
    return NodeIdentity(cluster_id, node_id).uri


@lru_cache(64)
def _credential(user: str, password: str) -> ScramCredential:
    salt = user.encode().ljust(SALT_BYTES, b".")
    return ScramCredential.of_password(ScramMechanism.SCRAM_SHA_256, password, salt, ITERATIONS_MIN)


def first_users(plan: Plan) -> list[UserScramCredentialRecord]:
    """The users with which the cluster is formatted."""
    if plan.security is None:
        return []
    passwords = PASSWORDS | {guest: f"{guest}-0" for guest in guests_of(plan.security)}
    if plan.floods:
        passwords |= {TENANT: TENANTS_PASSWORD}
    return [scram_record(user, _credential(user, password)) for user, password in passwords.items()]


class Secured:
    """Everything that is tried on the secured cluster of one story."""

    root: Mapping[str, str] = {"username": ROOT, "password": PASSWORDS[ROOT]}
    worker: Mapping[str, str] = {"username": WORKER, "password": PASSWORDS[WORKER]}
    """The options of every client that works."""
    tenant: Mapping[str, str] = {"username": TENANT, "password": TENANTS_PASSWORD}
    """The options of flooders that log in: of a user without rights, which no other story has."""

    def __init__(
        self,
        clients: Clients,
        plan: SecurityPlan,
        cluster_id: str,
        brokers: Mapping[int, Endpoint],
        inter_broker: Mapping[int, Endpoint],
        controllers: Mapping[int, Endpoint],
    ) -> None:
        """The endpoints are by node; `brokers` are those to which clients go."""
        self.clients, self.plan, self.cluster_id = clients, plan, cluster_id
        self._brokers, self.inter_broker, self.controllers = brokers, inter_broker, controllers
        nodes = range(len(clients.plan.nodes))
        self.certificates = {node_id: certificate(cluster_id, node_id) for node_id in nodes}
        self.oracle = SecurityOracle(lambda text: clients.ledger.report("security", text))
        self.guests = guests_of(plan)
        self.passwords: dict[str, list[str | None]] = {guest: [f"{guest}-0"] for guest in self.guests}
        """The passwords that each guest was given, in order; None: it was removed."""
        self.refused_values: set[bytes] = set()
        """Records that guests were refused to write."""
        self._registrar = Registrar(self)

    @property
    def now_s(self) -> float:
        return self.clients.network.scheduler.now_s

    def endpoint(self, node_id: int) -> Endpoint:
        return self._brokers[node_id]

    def connect(self, node_id: int) -> Channel:
        """A connection of its own, without a log-in."""
        environment: ClientEnvironment = self.clients.environment()
        return environment.transport.connect(self._brokers[node_id])

    async def begin(self) -> None:
        """The rights of everybody who works."""
        plan = self.clients.plan
        await self._registrar.begin(f"User:{WORKER}", min(len(plan.brokers), plan.topics[0].replication_factor))

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """Until it is over."""
        guests = [Guest(self, user) for user in self.guests]
        forging = [Impostor(self).work()] if self.plan.forges else []
        return [self._registrar.work(), *(guest.work() for guest in guests), *forging]

    async def read_final(self) -> None:
        """Nothing is there that a guest was refused to write."""
        for topic in TOPICS:
            for value in sorted(self.refused_values.intersection(await self._values(TopicPartition(topic, 0)))):
                self.oracle.report(f"I82: {topic} has {value!r}, which its writer was refused")

    async def _values(self, partition: TopicPartition) -> list[bytes | None]:
        values: list[bytes | None] = []
        async with await opened(self.clients) as consumer:
            end = (await consumer.end_offsets([partition]))[partition]
            await consumer.assign([partition])
            await consumer.seek(partition, 0)
            while await consumer.position(partition) < end:
                values += [record.value for record in await consumer.poll(200)]
        return values
