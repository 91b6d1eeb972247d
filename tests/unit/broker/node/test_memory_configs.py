"""The configuration of brokers changes while whole nodes run, in one simulated process: what it changes, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.config.dynamic_keys import DYNAMIC
from broker.config.keys.config_table import KEYS
from broker.node.configuration.changed_parts import OF_CLEANER, OF_THROTTLES, OF_TOPICS
from broker.node.node import Node
from broker.node.process.log_output import OF_NODES_LOG
from metadata.cordon import CORDONED_LOG_DIRS
from metadata.topic_config import TOPIC_CONFIGS
from penstock import AsyncAdmin, AsyncProducer
from penstock.config_keys import Update
from penstock.errors import BrokerIdNotRegisteredError, InvalidConfigError, MessageTooLargeError
from penstock.types import TopicPartition
from storage.log_config import LogConfig
from tests.support.memory_cluster import MemoryCluster, run_in_memory

ORDERS = TopicPartition("orders", 0)
VALUES = {
    "compression.gzip.level": "3",
    "compression.lz4.level": "4",
    "compression.type": "zstd",
    "compression.zstd.level": "5",
    "log.cleaner.delete.retention.ms": "6",
    "log.cleaner.max.compaction.lag.ms": "70",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "log.cleaner.min.compaction.lag.ms": "8",
    "log.cleanup.policy": "delete,compact",
    "log.flush.interval.messages": "9",
    "log.flush.interval.ms": "10",
    "log.index.interval.bytes": "11",
    "log.index.size.max.bytes": "1200",
    "log.message.timestamp.after.max.ms": "13000",
    "log.message.timestamp.before.max.ms": "14000",
    "log.message.timestamp.type": "LogAppendTime",
    "log.record.validation": "headers",
    "log.retention.bytes": "15000",
    "log.retention.ms": "16000",
    "log.roll.jitter.ms": "17",
    "log.roll.ms": "18000",
    "log.segment.bytes": "19000",
    "log.segment.delete.delay.ms": "20",
    "message.max.bytes": "2100",
}
"""For each key that the logs of topics inherit, another value than its default."""
OF_CONTROLLER = frozenset(key.name for key in KEYS.values() if key.update is Update.CLUSTER)

Story = Callable[[AsyncAdmin, MemoryCluster, Callable[[], AsyncProducer]], Awaitable[None]]


def run(story: Story, nodes: int = 2) -> None:
    async def main(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        bootstrap, environment = cluster.bootstrap(), cluster.clients()
        async with AsyncAdmin(bootstrap, environment=environment) as admin:
            await asyncio.wait_for(
                story(admin, cluster, lambda: AsyncProducer(bootstrap, environment=environment, linger_ms=0)), 60
            )
        await cluster.stop()

    run_in_memory(1, main, nodes=nodes)


def log_config(node: Node) -> LogConfig:
    topic = node.loader.image.topic(ORDERS.topic)
    log = None if topic is None else node.log_manager.get(ORDERS, topic.topic_id)
    assert log is not None
    return log.config


def test_every_key_that_may_change_has_somebody_who_hears_of_it() -> None:
    heard = OF_CONTROLLER | {*OF_THROTTLES} | {*OF_NODES_LOG} | {*OF_TOPICS} | {*OF_CLEANER} | {CORDONED_LOG_DIRS}
    assert heard == DYNAMIC.keys()
    assert VALUES.keys() == {*OF_TOPICS} - OF_CONTROLLER


def test_logs_have_the_values_for_all_brokers_then_those_of_their_own_broker_and_topics_keep_their_own() -> None:
    async def story(admin: AsyncAdmin, cluster: MemoryCluster, producer: Callable[[], AsyncProducer]) -> None:
        await admin.create_topic("orders", 1, 2, {"segment.ms": "5000"})
        before = [log_config(node) for node in cluster.nodes]
        await admin.alter_broker_config(None, VALUES)
        for node in cluster.nodes:
            described = await admin.describe_topic_config("orders")
            for definition in TOPIC_CONFIGS.values():
                if definition.broker_key in VALUES and definition.name != "segment.ms":
                    value = definition.parse(VALUES[definition.broker_key])
                    assert described[definition.name].source == "DYNAMIC_DEFAULT_BROKER_CONFIG"
                    found = getattr(log_config(node), definition.name.replace(".", "_"))
                    assert found == (",".join(value) if isinstance(value, tuple) else value), definition.name
            assert log_config(node).segment_ms == 5_000
        await admin.create_topic("later", 1, 2)
        assert (await admin.describe_topic_config("later"))["retention.ms"].value == "16000"
        await admin.alter_broker_config(1, {"log.retention.ms": 77})
        assert [log_config(node).retention_ms for node in cluster.nodes] == [16_000, 77]
        found = await admin.describe_broker_config(1)
        assert (found["log.retention.ms"].value, found["log.retention.ms"].source) == ("77", "DYNAMIC_BROKER_CONFIG")
        assert {key for key, entry in found.items() if not entry.is_read_only} == DYNAMIC.keys()
        await admin.alter_broker_config(None, dict.fromkeys(VALUES))
        await admin.alter_broker_config(1, {"log.retention.ms": None})
        assert [log_config(node) for node in cluster.nodes] == before
        assert await admin.describe_broker_config(None) == {}

    run(story)


def test_a_leader_refuses_by_the_new_limit_at_once() -> None:
    async def story(admin: AsyncAdmin, cluster: MemoryCluster, producer: Callable[[], AsyncProducer]) -> None:
        await admin.create_topic("orders", 1, 2)
        async with producer() as one:
            await (await one.send("orders", b"x" * 5_000))
            await admin.alter_broker_config(None, {"message.max.bytes": 1_000})
            with pytest.raises(MessageTooLargeError):
                await (await one.send("orders", b"x" * 5_000))
            await admin.alter_broker_config(None, {"message.max.bytes": None})
            await (await one.send("orders", b"x" * 5_000))

    run(story)


def test_min_isr_for_all_counts_on_controller_and_leaders() -> None:
    async def story(admin: AsyncAdmin, cluster: MemoryCluster, producer: Callable[[], AsyncProducer]) -> None:
        await admin.create_topic("orders", 1, 2)
        await admin.alter_broker_config(None, {"min.insync.replicas": 2})
        found = (await admin.describe_topic_config("orders"))["min.insync.replicas"]
        assert (found.value, found.source) == ("2", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        found_by = [node.broker.replication.replicas.hosted.find(ORDERS) for node in cluster.nodes if node.broker]
        assert [partition and partition.min_insync_replicas for partition in found_by] == [2, 2]

    run(story)


def test_the_cleaner_has_its_new_limit_and_pause() -> None:
    async def story(admin: AsyncAdmin, cluster: MemoryCluster, producer: Callable[[], AsyncProducer]) -> None:
        one, other = (node.broker.disks.cleaner.cleaner for node in cluster.nodes if node.broker)
        before = other.config
        await admin.alter_broker_config(0, {"log.cleaner.io.max.bytes.per.second": 7, "log.cleaner.backoff.ms": 8})
        assert (one.config.io_max_bytes_per_second, one.config.backoff_ms) == (7, 8)
        assert "7 bytes/s" in repr(one._throttle) and other.config == before

    run(story)


def test_copies_for_replicas_that_move_have_their_new_rates() -> None:
    async def story(admin: AsyncAdmin, cluster: MemoryCluster, producer: Callable[[], AsyncProducer]) -> None:
        await admin.alter_broker_config(None, {"leader.replication.throttled.rate": 7_000})
        await admin.alter_broker_config(1, {"follower.replication.throttled.rate": 8_000})
        one, other = (node.broker for node in cluster.nodes)
        assert one is not None and other is not None
        assert "7000 bytes/s" in repr(one.replication.leader_throttle) and "7000 bytes/s" in repr(
            other.replication.leader_throttle
        )
        assert "no limit" in repr(one.replication.follower_throttle) and "8000 bytes/s" in repr(
            other.replication.follower_throttle
        )
        await admin.alter_broker_config(None, {"leader.replication.throttled.rate": None})
        assert not one.replication.leader_throttle.is_limited

    run(story)


def test_a_node_that_starts_again_has_what_was_set_while_it_was_down() -> None:
    async def main(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            await admin.create_topic("orders", 1, 1)
            await admin.alter_broker_config(None, {"log.retention.ms": 66})
            await admin.alter_broker_config(0, {"log.retention.bytes": 67})
        await cluster.stop()
        await cluster.start()
        found = log_config(cluster.nodes[0])
        assert (found.retention_ms, found.retention_bytes) == (66, 67)
        await cluster.stop()

    run_in_memory(2, main, nodes=1)


def test_a_bad_change_is_refused_by_its_name_and_changes_nothing() -> None:
    async def story(admin: AsyncAdmin, cluster: MemoryCluster, producer: Callable[[], AsyncProducer]) -> None:
        with pytest.raises(InvalidConfigError, match=r"num\.io\.threads cannot change while a broker runs"):
            await admin.alter_broker_config(None, {"log.retention.ms": 5, "num.io.threads": 9})
        with pytest.raises(BrokerIdNotRegisteredError, match="broker 9 is not registered"):
            await admin.alter_broker_config(9, {"log.retention.ms": 5})
        await admin.alter_broker_config(1, {"log.retention.ms": 5}, validate_only=True)
        assert all(node.dynamic.current == node.dynamic.file for node in cluster.nodes)
        assert cluster.nodes[0].loader.image.configs == {}
        assert KEYS["num.io.threads"].update is Update.RESTART

    run(story)
