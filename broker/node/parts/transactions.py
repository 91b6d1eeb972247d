"""Makes the coordinator of transactions: the driver and its marker sender, over the configuration of this node.

Made before the replicas, whose leads it hears of; started with the broker, and stopped BEFORE the listeners close.
"""

from __future__ import annotations

from typing import Final

from broker.network.broker_calls import CallBroker
from broker.node.parts.coordination import StateLog, StateMaker
from broker.node.parts.foundation import Foundation
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
from metadata.internal_topics import TRANSACTION_STATE
from penstock.lazy_dataclass import dataclass
from penstock.record.codecs import Codec

COMMIT_MS: Final = 5_000
"""The longest wait of an answer for the commit of what its request has written, as for a request about a group."""


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """The coordinator, and what is told of it."""

    coordinator: TransactionCoordinator
    figures: TransactionFigures


def make_transactions(
    base: Foundation, state_of: StateMaker, *, request_id: RequestProducerId, call_broker: CallBroker
) -> TransactionParts:
    """Subscribe the coordinator to the metadata AFTER the replicas."""
    config, environment, quorum = base.config, base.environment, base.quorum
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
    state = state_of(log)
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
    sender = MarkerSender(lambda: quorum.loader.image, call_broker, environment.clock, random, base.on_fatal)
    coordinator = TransactionCoordinator(
        broker_id=config.node_id,
        topic=state.topic,
        topics=state.topics,
        ports=state.ports,
        make_core=make_core,
        sender=sender,
        request_id=request_id,
        random=random,
    )
    figures = TransactionFigures(coordinator, sender, memory, counters, state.ports.loader.figures)
    return TransactionParts(coordinator, figures)
