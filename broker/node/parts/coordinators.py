"""Makes the coordinators of groups and of transactions, and the leaders' way to those of transactions.

Made before the replicas, whose leads they hear of. Stopped BEFORE the listeners close: the requests that wait are
answered. Not here: the cores (`broker/groups/`, `broker/transactions/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from broker.metrics.group_readings import group_readings, transaction_readings
from broker.metrics.metrics import Reading
from broker.network.broker_calls import CallBroker
from broker.node.environment import Environment
from broker.node.parts.coordination import make_state
from broker.node.parts.foundation import Foundation
from broker.node.parts.groups import GroupParts, make_groups
from broker.node.parts.quorum import QuorumParts
from broker.node.parts.transactions import TransactionParts, make_transactions
from broker.quorum.metadata_loader import MetadataLoader
from broker.replication.durability import Durability
from broker.replication.hosting.replica_parts import KnownReplicas
from broker.replication.hosting.role_news import RoleListener
from broker.replication.replica_statistics import Traffic
from broker.transactions.coordinator.transaction_coordinator import RequestProducerId
from broker.transactions.verification.image_coordinators import ImageCoordinators
from broker.transactions.verification.verifier import Verifier
from metadata.image import MetadataImage
from penstock.backoff import Backoff
from penstock.lazy_dataclass import dataclass

AGAIN_MS, AGAIN_MS_MAX = 2, 1_000
"""The pause between two attempts: a transaction is ended within a few milliseconds, and the next one may begin then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCoordinators:
    """The coordinators of a broker."""

    groups: GroupParts
    transactions: TransactionParts
    verifier: Verifier

    @property
    def role_listeners(self) -> tuple[RoleListener, ...]:
        """The listeners to the leads of replicas."""
        return self.groups.coordinator, self.transactions.coordinator

    def subscribe(self, loader: MetadataLoader) -> None:
        """Called AFTER the replicas have subscribed."""
        loader.subscribe(self.groups.coordinator.published)
        loader.subscribe(self.transactions.coordinator.published)

    def start(self) -> None:
        self.groups.start()
        self.transactions.coordinator.start()

    async def stop(self) -> None:
        """Stops the coordinators. Called BEFORE the listeners close: requests that wait are answered."""
        await self.transactions.coordinator.stop()
        await self.groups.stop()
        await self.verifier.stop()

    def readings(self) -> Iterator[Reading]:
        """The metrics of this room."""
        yield from group_readings(self.groups.figures, self.groups.lag)
        yield from transaction_readings(self.transactions.figures, self.verifier)


def make_coordinators(
    base: Foundation,
    known: KnownReplicas,
    durability: Durability,
    traffic: Traffic,
    *,
    request_id: RequestProducerId,
    call_broker: CallBroker,
) -> BrokerCoordinators:
    """`request_id` gives producer ids; `call_broker` reaches this broker, too."""

    def broker_epoch() -> int:
        return known.lost.broker_epoch

    state_of = partial(make_state, base, durability, traffic, broker_epoch)
    verifies = base.config.transaction_partition_verification_enable
    verifier = make_verifier(base.environment, base.quorum, call_broker, base.on_fatal, is_enabled=verifies)
    return BrokerCoordinators(
        groups=make_groups(base, state_of, partitions=known.hosted, verifier=verifier),
        transactions=make_transactions(base, state_of, request_id=request_id, call_broker=call_broker),
        verifier=verifier,
    )


def make_verifier(
    environment: Environment,
    quorum: QuorumParts,
    call_broker: CallBroker,
    on_fatal: Callable[[BaseException], None],
    *,
    is_enabled: bool,
) -> Verifier:
    """`call_broker` reaches this broker, too. `is_enabled`: see Verifier."""

    def image() -> MetadataImage:
        return quorum.loader.image

    backoff = Backoff(AGAIN_MS, AGAIN_MS_MAX, environment.random)
    return Verifier(ImageCoordinators(image), call_broker, backoff, on_fatal, is_enabled)
