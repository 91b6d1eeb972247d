"""Makes the coordinator of transactions: the driver and its marker sender, over the configuration of this node.

Made before the replicas, whose leads it hears of; started with the broker, and stopped BEFORE the doors close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.config.node_config import NodeConfig
from broker.coordination.image_topics import ImageTopics
from broker.coordination.loading import ShardLoader
from broker.coordination.shard_ports import ShardPorts
from broker.coordination.state_topic import StateTopic
from broker.network.broker_calls import CallBroker
from broker.node.environment import Environment
from broker.node.rooms.groups import RELOAD_MS, RELOAD_MS_MAX
from broker.node.rooms.quorum import QuorumParts
from broker.replication.durability import Durability
from broker.replication.leader.leader_appends import LeaderAppends
from broker.replication.replica_statistics import Traffic
from broker.transactions.coordinator.coordinator_figures import TransactionFigures
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.coordinator.transaction_coordinator import RequestProducerId, TransactionCoordinator
from broker.transactions.marker_port import MarkerPort
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import TransactionCounters
from broker.transactions.transaction_log import read_transaction_log
from broker.transactions.transaction_memory import transaction_memory
from broker.transactions.transaction_records import encode_transaction_record
from broker.transactions.transaction_shard import TransactionShard
from broker.transactions.transactional_ids import check_transactional_id, partition_of_transactional_id
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from penstock.backoff import Backoff
from penstock.messages.topics import CreateInternalTopicRequest
from penstock.record.codecs import Codec

COMMIT_MS: Final = 5_000
"""The longest wait of an answer for the commit of what its request has written, as for a request about a group."""


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """The coordinator, and what is told of it."""

    coordinator: TransactionCoordinator
    figures: TransactionFigures
    topics: ImageTopics
    loader: ShardLoader

    def start(self) -> None:
        self.coordinator.start()

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        self.topics.published(delta, image)
        self.coordinator.published(delta, image)

    async def stop(self) -> None:
        """BEFORE the doors close: requests that wait are answered."""
        await self.coordinator.stop()
        self.loader.close()


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
    clock, random = environment.clock, environment.random

    def image() -> MetadataImage:
        return quorum.loader.image

    def wanted() -> CreateInternalTopicRequest:
        return CreateInternalTopicRequest(
            config.node_id,
            broker_epoch(),
            TRANSACTION_STATE,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
            },
        )

    counters, memory = TransactionCounters(), transaction_memory(config.transaction_coordinator_memory_max_bytes)
    topics, appends = ImageTopics(image), LeaderAppends(durability, traffic, clock)
    backoff = Backoff(RELOAD_MS, RELOAD_MS_MAX, random)
    loader = ShardLoader(
        "transaction-load", read_transaction_log, environment.threads, clock.now_ms, environment.keep_objects
    )

    def ports_of(markers: MarkerPort) -> ShardPorts:
        return ShardPorts(
            partial(TransactionShard, transaction_config(config), markers, memory, counters),
            appends,
            loader,
            topics,
            clock,
            environment.ids.new_id,
            COMMIT_MS,
            Codec.NONE,
            lambda: encode_transaction_record,
            backoff,
            on_fatal,
            quorum.lease.is_held,
        )

    topic = StateTopic(
        TRANSACTION_STATE,
        check_transactional_id,
        partition_of_transactional_id,
        image,
        wanted,
        call=quorum.channel.call,
        random=random,
        on_fatal=on_fatal,
        may_lead=quorum.may_lead,
    )
    sender = MarkerSender(image, call_broker, clock, random, on_fatal)
    coordinator = TransactionCoordinator(config.node_id, topic, sender, request_id, ports_of, clock, random)
    figures = TransactionFigures(coordinator, sender, memory, counters, loader.figures)
    return TransactionParts(coordinator, figures, topics, loader)


def transaction_config(config: NodeConfig) -> TransactionConfig:
    """The settings of the cores."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        record_bytes_max=config.message_max_bytes,
    )
