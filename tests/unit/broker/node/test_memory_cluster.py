"""The seam is whole: three nodes live in one simulated process, without a socket, a thread or a file."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.config.config import parse_config
from broker.replication.follower.fetcher_config import FetcherConfig, fetcher_config
from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer
from penstock.errors import OffsetOutOfRangeError, PenstockError
from penstock.messages.quorum import DescribeMetadataRequest
from penstock.messages.topics import CreateTopicsRequest, NewTopic
from penstock.types import TopicPartition
from tests.support.memory_cluster import MemoryCluster, run_in_memory

ROOT = Path(__file__).resolve().parents[4]
ORDERS = TopicPartition("orders", 0)
VALUES = [b"first", b"second", b"third"]


async def until_read(cluster: MemoryCluster) -> list[bytes | None]:
    """A new leader shows no records before it knows how far its followers are."""
    earliest = {"auto_offset_reset": "earliest"}
    async with AsyncConsumer(cluster.bootstrap(), environment=cluster.clients(), **earliest) as consumer:
        await consumer.assign([ORDERS])
        while True:
            if records := await consumer.poll(1_000):
                return [record.value for record in records]


async def write(cluster: MemoryCluster) -> list[int]:
    """Writes to the topic with acks=all; the offsets that were acked."""
    async with AsyncProducer(cluster.bootstrap(), environment=cluster.clients(), linger_ms=1) as producer:
        sent = [await producer.send("orders", value) for value in VALUES]
        return [(await record).offset for record in sent]


async def written(cluster: MemoryCluster) -> tuple[str, list[int]]:
    """Creates the topic and writes to it; its id, and the offsets that were acked."""
    async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
        topic = await admin.create_topic("orders", 1, 3)
    return topic.topic_id, await write(cluster)


async def story(cluster: MemoryCluster) -> dict[str, Any]:
    """Elect a controller, create a topic, write to it with acks=all, and read it back."""
    cluster.format()
    await cluster.start()
    controllers = {node.leader_id for node in cluster.nodes}
    topic_id, offsets = await written(cluster)
    values = await until_read(cluster)
    durable = [node.log_manager.get(ORDERS, topic_id).flushed_offset for node in cluster.nodes]  # type: ignore[union-attr]
    found = cluster.nodes[0].loader.image.offset, cluster.clock.now_ms()
    await cluster.stop()
    return {
        "controllers": controllers,
        "topic": topic_id,
        "offsets": offsets,
        "values": values,
        "durable": durable,
        "when": found,
        "steps": cluster.memory.scheduler.steps,
        "disks": [hashlib.sha256("\n".join(disk.trace).encode()).hexdigest() for disk in cluster.disks],
    }


@pytest.mark.parametrize(("bytes_min", "waited"), [(1, range(200)), (1 << 20, range(300, 1000))])
def test_an_ack_waits_for_the_followers_fetch_which_waits_for_replica_fetch_min_bytes(
    bytes_min: int, waited: range
) -> None:
    async def acked_in_ms(cluster: MemoryCluster) -> int:
        cluster.format()
        await cluster.start()
        await written(cluster)
        began = cluster.clock.now_ms()
        await write(cluster)
        took_ms = cluster.clock.now_ms() - began
        await cluster.stop()
        return took_ms

    config = {"replica.fetch.min.bytes": bytes_min, "replica.fetch.wait.max.ms": 400}
    assert run_in_memory(4, acked_in_ms, config=config) in waited


def test_a_node_fetches_as_its_configuration_says() -> None:
    """Whose values differ, so that none may stand for another."""
    config = parse_config(
        {
            "node.id": 7,
            "process.roles": "broker",
            "listeners": "BROKER://h:1,INTERNAL://h:2",
            "controller.quorum.voters": "1@h:3",
            "log.dirs": "/d",
            "replica.fetch.wait.max.ms": 11,
            "replica.fetch.response.max.bytes": 12,
            "replica.fetch.max.bytes": 13,
            "replica.fetch.backoff.ms": 14,
            "replica.fetch.min.bytes": 5,
        }
    )

    assert fetcher_config(config, "cluster") == FetcherConfig(
        broker_id=7,
        cluster_id="cluster",
        wait_ms_max=11,
        response_bytes_max=12,
        partition_bytes_max=13,
        backoff_ms=14,
        bytes_min=5,
    )


def test_three_nodes_elect_a_controller_create_a_topic_and_keep_what_is_acked() -> None:
    found = run_in_memory(1, story)
    assert len(found["controllers"]) == 1 and found["controllers"] < {0, 1, 2}
    assert found["values"] == VALUES and found["offsets"] == [0, 1, 2]
    assert sum(offset == len(VALUES) for offset in found["durable"]) >= 2, "acks=all: on the disks of the ISR"


def test_a_leader_knows_what_it_sent_to_each_broker_by_the_process_that_is_registered() -> None:
    """So a registration of another process is judged by what this one was sent."""

    async def sent(cluster: MemoryCluster) -> set[tuple[bool, bool]]:
        cluster.format()
        await cluster.start()
        await written(cluster)
        (leader,) = (node for node in cluster.nodes if node.raft.is_leader)
        brokers = leader.loader.image.brokers
        found = {
            (
                leader.raft.sent_end_besides(at, broker.incarnation_id) < broker.broker_epoch,
                before < broker.broker_epoch,
            )
            for at, broker in brokers.items()
            for before in [leader.raft.sent_end_besides(at, "another process")]
        }
        (follower, *_) = (node for node in cluster.nodes if node is not leader)
        assert follower.raft.sent_end_besides(follower.config.node_id, follower.quorum.incarnation_id) == (
            follower.raft.next_offset
        ), "it does not lead, and knows of nothing"
        await cluster.stop()
        return found

    assert run_in_memory(1, sent) == {(True, False)}


def test_every_node_tells_the_same_digest_at_the_same_offset_while_it_writes_and_cuts() -> None:
    async def digests(cluster: MemoryCluster) -> int:
        async def digest_of(index: int, offset: int) -> str:
            while True:
                try:
                    asked = DescribeMetadataRequest(offset, 0, 0)
                    answer = await cluster.ask(cluster.endpoint(index), "DescribeMetadata", asked)
                except OffsetOutOfRangeError:
                    return "gone" if offset < cluster.nodes[index].loader.image.offset else "not yet"
                assert (answer.node_id, answer.offset) == (index, offset)
                return str(answer.sha256)

        async def compared(offset: int) -> int:
            found = set(await asyncio.gather(*(digest_of(index, offset) for index in range(3)))) - {"gone", "not yet"}
            assert len(found) <= 1, f"at offset {offset}"
            return len(found)

        async def created() -> None:
            for number in range(12):
                topic = CreateTopicsRequest((NewTopic(f"topic-{number}", 2, 2),))
                await cluster.ask(cluster.endpoint(0), "CreateTopics", topic)
                await asyncio.sleep(0.02)

        cluster.format()
        await cluster.start()
        creating, equal = asyncio.create_task(created()), 0
        while not creating.done():
            equal += await compared(min(node.loader.image.offset for node in cluster.nodes))
        assert all(node.snapshotter.kept_from > 0 for node in cluster.nodes), "the logs were cut meanwhile"
        assert await digest_of(0, 0) == "gone" and await digest_of(0, 1 << 40) == "not yet"
        last = max(node.loader.image.offset for node in cluster.nodes)
        await asyncio.gather(*(node.loader.wait_for_offset(last) for node in cluster.nodes))
        assert await digest_of(1, last) == cluster.nodes[1].loader.image.digest() and await compared(last) == 1
        await cluster.stop()
        return equal

    config = {"metadata.log.max.record.bytes.between.snapshots": 1_000, "metadata.max.retention.bytes": 1}
    assert run_in_memory(3, digests, config=config) > 20


AUDITED = """
import sys
from tests.support.memory_cluster import run_in_memory
from tests.unit.broker.node.test_memory_cluster import story

reached = []
WATCHED = ("open", "os.", "socket.", "_thread.", "subprocess.", "fcntl.", "shutil.")
sys.addaudithook(lambda event, _: reached.append(event) if event.startswith(WATCHED) else None)
told = run_in_memory(5, story)
print(sorted(told.items()))
print(sorted(reached))
"""


def audited(hash_seed: str) -> tuple[str, list[str]]:
    """Plays the story in a process of its own: its result, and the interpreter's audit events of the machine."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", AUDITED], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    shown, reached = done.stdout.splitlines()
    return shown, ast.literal_eval(reached)


def test_a_whole_cluster_takes_nothing_of_the_machine_and_tells_the_same_in_every_process() -> None:
    found, reached = audited("2" if os.environ.get("PYTHONHASHSEED") == "1" else "1")
    assert reached == []
    assert found == repr(sorted(run_in_memory(5, story).items()))


def test_a_seed_is_a_whole_story() -> None:
    assert run_in_memory(7, story) == run_in_memory(7, story)
    assert run_in_memory(7, story) != run_in_memory(8, story)


@pytest.mark.parametrize("seed", range(6))
def test_what_was_acked_is_there_after_all_nodes_lost_their_power(seed: int) -> None:
    async def cut(cluster: MemoryCluster) -> list[bytes | None]:
        cluster.format()
        await cluster.start()
        await written(cluster)
        await cluster.cut_power()
        await cluster.start()
        return await until_read(cluster)

    assert run_in_memory(seed, cut) == VALUES


def test_a_mutant_that_does_not_sync_loses_what_was_acked() -> None:
    async def cut(cluster: MemoryCluster) -> list[bytes | None]:
        cluster.format()
        for disk in cluster.disks:
            disk.lazy_fdatasync = True
        await cluster.start()
        await written(cluster)
        await cluster.cut_power()
        async with asyncio.timeout(60):
            await cluster.start()
            return await until_read(cluster)

    outcomes = []
    for seed in range(4):
        try:
            outcomes.append(run_in_memory(seed, cut))
        except (PenstockError, TimeoutError) as error:  # what the start meets first on such a disk
            outcomes.append([type(error).__name__.encode()])
    assert VALUES not in outcomes, outcomes
