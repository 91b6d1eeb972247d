"""Makes the base of a coordinator: the topic of its state, the ports of its shards, the topics that its cores see.

Groups and transactions have one each. Not here: the cores, and what only one of the two has (groups.py,
transactions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.coordination.image_topics import ImageTopics
from broker.coordination.loading import ShardLoader
from broker.coordination.record_log import ReadLog
from broker.coordination.shard_ports import ShardPorts
from broker.coordination.state_topic import PartitionOf, StateTopic
from broker.coordination.tick_batches import Encode
from broker.node.parts.foundation import Foundation
from broker.replication.durability import Durability
from broker.replication.leader.leader_appends import LeaderAppends
from broker.replication.replica_statistics import Traffic
from metadata.image import MetadataImage
from penstock.backoff import Backoff
from penstock.lazy_dataclass import dataclass
from penstock.messages.topics import CreateInternalTopicRequest
from penstock.record.codecs import Codec

RELOAD_MS, RELOAD_MS_MAX = 100, 2_000
"""The pause between two loads of a partition whose log cannot be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLog:
    """The topic of a coordinator's state as this node is configured to make it, and the form of its records."""

    topic: str
    check_id: Callable[[str], None]
    """Raises the error of an id that nothing can have."""
    partition_of: PartitionOf
    partitions: int
    replication_factor: int
    topic_config: Mapping[str, str]
    load_threads: str
    """The name of the threads that load."""
    read: ReadLog
    make_encode: Callable[[], Encode]
    codec: Codec
    commit_timeout_ms: int
    """The longest wait of an answer for the commit of what its request has written."""


@dataclass(frozen=True, slots=True)
class StateParts:
    """The parts of one coordinator that are made alike for both."""

    topic: StateTopic
    topics: ImageTopics
    ports: ShardPorts


StateMaker = Callable[[StateLog], StateParts]
"""`make_state` with all that is the same for both coordinators."""


def make_state(
    base: Foundation,
    durability: Durability,
    traffic: Traffic,
    broker_epoch: Callable[[], int],
    log: StateLog,
) -> StateParts:
    config, environment, quorum, on_fatal = base.config, base.environment, base.quorum, base.on_fatal
    clock, random = environment.clock, environment.random

    def image() -> MetadataImage:
        return quorum.loader.image

    def wanted() -> CreateInternalTopicRequest:
        return CreateInternalTopicRequest(
            broker_id=config.node_id,
            broker_epoch=broker_epoch(),
            name=log.topic,
            partitions=log.partitions,
            replication_factor=log.replication_factor,
            config=dict(log.topic_config),
        )

    topics = ImageTopics(image)
    ports = ShardPorts(
        logs=LeaderAppends(durability, traffic, clock),
        loader=ShardLoader(log.load_threads, log.read, environment.threads, clock.now_ms, environment.keep_objects),
        topics=topics,
        clock=clock,
        new_id=environment.ids.new_id,
        commit_timeout_ms=log.commit_timeout_ms,
        codec=log.codec,
        make_encode=log.make_encode,
        backoff=Backoff(RELOAD_MS, RELOAD_MS_MAX, random),
        on_fatal=on_fatal,
        may_answer=quorum.lease.is_held,
    )
    topic = StateTopic(
        name=log.topic,
        check_id=log.check_id,
        partition_of=log.partition_of,
        image=image,
        wanted=wanted,
        call=quorum.channel.call,
        random=random,
        on_fatal=on_fatal,
        may_lead=quorum.may_lead,
    )
    return StateParts(topic, topics, ports)
