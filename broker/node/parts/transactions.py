"""Makes the coordinator of transactions: the driver and its marker sender, over the configuration of this node.

Made before the replicas, whose leads it hears of; started with the broker, and stopped BEFORE the doors close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.config.node_config import NodeConfig
from broker.network.broker_calls import CallBroker
from broker.node.environment import Environment
from broker.node.parts.coordination import StateLog, make_state
from broker.node.parts.quorum import QuorumParts
from broker.replication.durability import Durability
from broker.replication.replica_statistics import Traffic
from broker.transactions.coordinator.coordinator_figures import TransactionFigures
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.coordinator.transaction_coordinator import RequestProducerId, TransactionCoordinator
from broker.transactions.marker_port import MarkerPort
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import TransactionCounters
from broker.transactions.transaction_memory import transaction_memory
from broker.transactions.transaction_records import encode_transaction_record, read_transaction_log
from broker.transactions.transaction_shard import TransactionShard
from broker.transactions.transactional_ids import check_transactional_id, partition_of_transactional_id
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from penstock.record.codecs import Codec

COMMIT_MS: Final = 5_000
"""The longest wait of an answer for the commit of what its request has written, as for a request about a group."""


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """The coordinator, and what is told of it."""

    coordinator: TransactionCoordinator
    figures: TransactionFigures

    def start(self) -> None:
        self.coordinator.start()

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        self.coordinator.published(delta, image)

    async def stop(self) -> None:
        """BEFORE the doors close: requests that wait are answered."""
        await self.coordinator.stop()


def make_transactions(
    config: NodeConfig,
    environment: Environment,
    quorum: QuorumParts,
    durability: Durability,
    traffic: Traffic,
    broker_epoch: Callable[[], int],
    request_id: RequestProducerId,
    call_broker: CallBroker,
    on_fatal: Callable[[BaseException], None],
) -> TransactionParts:
    """Subscribe the coordinator to the metadata AFTER the replicas."""
    log = StateLog(
        topic=TRANSACTION_STATE,
        check_id=check_transactional_id,
        partition_of=partition_of_transactional_id,
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        topic_config={
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
        },
        load_threads="transaction-load",
        read=read_transaction_log,
        make_encode=lambda: encode_transaction_record,
        codec=Codec.NONE,
        commit_timeout_ms=COMMIT_MS,
    )
    state = make_state(log, config, environment, quorum, durability, traffic, broker_epoch, on_fatal)
    settings = TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        record_bytes_max=config.message_max_bytes,
    )
    counters, memory = TransactionCounters(), transaction_memory(config.transaction_coordinator_memory_max_bytes)

    def make_core(markers: MarkerPort) -> TransactionShard:
        return TransactionShard(settings, markers, memory, counters)

    random = environment.random
    sender = MarkerSender(lambda: quorum.loader.image, call_broker, environment.clock, random, on_fatal)
    coordinator = TransactionCoordinator(
        config.node_id, state.topic, state.topics, state.ports, make_core, sender, request_id, random
    )
    figures = TransactionFigures(coordinator.led, sender, memory, counters, state.ports.loader.figures)
    return TransactionParts(coordinator, figures)
