"""Whole nodes whose voters change: by records of the metadata log, without a stop, and through every restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from broker.config.config import parse_config
from broker.node.commands.recover_quorum import recovery_steps, still_lost
from broker.node.commands.survivor import METADATA_DIRECTORY, read_survivor
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from broker.quorum.metadata_log import QuorumStateFile
from penstock import AsyncAdmin, AsyncProducer, TopicPartition
from penstock.errors import ApiError, MetaPropertiesError, RequestTimedOutError
from penstock.ids import RandomIds
from raft.quorum_state import ElectionState
from raft.voter_changes import AddVoter, NameDirectories, RemoveVoter, VoterChange
from raft.voters import VoterSet
from storage.disk.atomic_file import write_atomically
from tests.simulation.cluster.machine import make_parents
from tests.support.losing_fs import LosingFileSystem
from tests.support.memory_cluster import MemoryCluster, run_in_memory

SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": 200, "metadata.max.retention.ms": 1}


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within a minute")


def leader_of(cluster: MemoryCluster) -> Node | None:
    found = (node for node in cluster.nodes if node.quorum.raft.core is not None and node.quorum.raft.core.leadership)
    return next(found, None)


async def change(cluster: MemoryCluster, wanted: VoterChange) -> None:
    """Asks whoever leads, until the change is committed."""
    while True:
        leader = leader_of(cluster)
        if leader is not None:
            try:
                await leader.quorum.raft.change_voters(wanted)
                return
            except RequestTimedOutError:
                pass
        await asyncio.sleep(0.05)


async def until_all_know(cluster: MemoryCluster, voters: VoterSet) -> None:
    await until(lambda: all(node.quorum.raft.voters == voters for node in cluster.nodes))


async def create(cluster: MemoryCluster, name: str, replicas: int) -> None:
    async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
        await admin.create_topic(name, 1, replicas)


def set_of(cluster: MemoryCluster, *ids: int) -> VoterSet:
    return VoterSet(tuple(map(cluster.voter, ids)))


EACH_START = [pytest.param({}, marks=pytest.mark.long), SNAPSHOTS]
"""A node has snapshots of the metadata; at night it also starts from its log alone."""


@pytest.mark.parametrize("config", EACH_START, ids=["log", "snapshots"])
def test_a_quorum_that_was_fixed_by_its_file_becomes_a_dynamic_one_without_a_stop(config: dict[str, object]) -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        assert all(not node.quorum.raft.voters.is_dynamic for node in cluster.nodes)
        await change(cluster, NameDirectories())
        await until_all_know(cluster, set_of(cluster, 0, 1, 2))
        await create(cluster, "behind", 3)
        await cluster.stop()
        await cluster.start()
        await until_all_know(cluster, set_of(cluster, 0, 1, 2))
        await create(cluster, "after-a-restart", 3)
        await cluster.stop()

    run_in_memory(5, story, config=config)


@pytest.mark.parametrize("config", EACH_START, ids=["log", "snapshots"])
def test_a_quorum_grows_from_one_voter_to_three_and_shrinks_to_another_one(config: dict[str, object]) -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        await cluster.start()
        await until_all_know(cluster, set_of(cluster, 0))
        await create(cluster, "first", 3)
        for joins in (1, 2):
            await change(cluster, AddVoter(cluster.voter(joins)))
        await until_all_know(cluster, set_of(cluster, 0, 1, 2))
        await cluster.cut_power()
        await cluster.start()
        for leaves in (0, 1):
            await change(cluster, RemoveVoter(leaves, cluster.voter(leaves).directory_id or ""))
        await until_all_know(cluster, set_of(cluster, 2))
        await until(lambda: all(node.leader_id == 2 for node in cluster.nodes))
        await create(cluster, "second", 3)
        await cluster.stop()
        await cluster.start()
        assert [node.leader_id for node in cluster.nodes] == [2, 2, 2]
        await cluster.stop()

    run_in_memory(6, story, config=config)


def test_a_joiner_that_ended_before_its_first_record_finds_the_leader_again() -> None:
    """It has noted the epoch and its leader, and no log says where that is: only the bootstrap server that it asks."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        await cluster.start(1)
        epoch = cluster.nodes[0].quorum.raft.leader_and_epoch[1]
        disk, path = cluster.disks[1], f"{cluster.config(1).metadata_log_dir}/__cluster_metadata-0"
        disk.mkdir(path)
        QuorumStateFile(path, disk).save(ElectionState(epoch, leader_id=0))
        async with asyncio.timeout(60):
            await cluster.start()
        await until_all_know(cluster, set_of(cluster, 0))
        await cluster.stop()

    run_in_memory(10, story)


def mount(cluster: MemoryCluster, index: int, path: str) -> None:
    """A new disk for the node, with a copy of node 0's metadata log dir on it."""
    source, left = cluster.config(0).metadata_log_dir, cluster.disks[0]
    disk = cluster.disks[index] = LosingFileSystem()
    make_parents(disk, [f"{path}/{METADATA_DIRECTORY}/log", *cluster.config(index).log_dirs])
    for name in (
        "meta.properties",
        "first-voters",
        "quorum-voter",
        *(f"{METADATA_DIRECTORY}/{one}" for one in names(left, source)),
    ):
        if left.exists(f"{source}/{name}"):
            write_atomically(disk, f"{path}/{name}", left.read_file(f"{source}/{name}"))


def names(disk: LosingFileSystem, log_dir: str) -> list[str]:
    return disk.listdir(f"{log_dir}/{METADATA_DIRECTORY}")


def recover(cluster: MemoryCluster, index: int) -> None:
    """Prepares the disk of a lost voter, with a copy of the metadata log dir of node 0."""
    mount(cluster, index, "/left/data")
    config, disk = cluster.config(index), cluster.disks[index]
    survivor = read_survivor(disk, "/left/data", index)
    for step in recovery_steps(config, survivor, (1, 2), disk, RandomIds(Random(index))):
        assert not step.is_done
        step.do()
    cluster.given_up_dirs[index] = still_lost(config, survivor, disk)


@pytest.mark.parametrize("config", EACH_START, ids=["log", "snapshots"])
def test_a_copy_of_the_disk_that_is_left_stands_for_a_lost_voter(config: dict[str, object]) -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        await cluster.start()
        before = set_of(cluster, 0, 1, 2)
        await until_all_know(cluster, before)
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            await admin.create_topic("alone", assignments=[[1]])
            await admin.create_topic("orders", assignments=[[0, 1, 2]])
        async with AsyncProducer(cluster.bootstrap(), environment=cluster.clients()) as producer:
            for topic in ("alone", "orders"):
                await producer.send(topic, b"acked")
        await cluster.stop(2)
        for index in (1, 2):
            recover(cluster, index)
        assert cluster.voter(1) == before.find(1) and cluster.voter(2) != before.find(2)
        assert cluster.given_up_dirs == {1: (), 2: (before.voters[2].directory_id,)}
        await cluster.start()
        await until(lambda: leader_of(cluster) is not None)
        await change(cluster, RemoveVoter(2, before.voters[2].directory_id or ""))
        await change(cluster, AddVoter(cluster.voter(2)))
        await until_all_know(cluster, set_of(cluster, 0, 1, 2))
        await create(cluster, "after", 3)
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            (lost,) = (await admin.describe_topic("alone")).partitions
            with pytest.raises(ApiError, match="held flushed records, and this is the only in-sync replica"):
                await admin.list_offsets([TopicPartition("alone", 0)])
            assert lost.error is not None, "no empty log is served for one that held acked records"
            assert (await admin.list_offsets([TopicPartition("orders", 0)]))[TopicPartition("orders", 0)].offset == 1
        await cluster.stop()

    run_in_memory(9, story, config=config)


@pytest.mark.parametrize("starts", [True, False], ids=["started between", "not started"])
def test_the_same_id_on_an_empty_disk_is_another_voter_also_when_that_disk_is_replaced_again(starts: bool) -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        await cluster.start()
        before = set_of(cluster, 0, 1, 2)
        await cluster.stop(1)
        cluster.replace_disk(2)
        if starts:
            await cluster.start()
            await cluster.stop(1)
        cluster.replace_disk(2)
        await cluster.start()
        await until_all_know(cluster, before)
        assert not before.names(2, cluster.voter(2).directory_id)
        await change(cluster, RemoveVoter(2, before.voters[2].directory_id or ""))
        await change(cluster, AddVoter(cluster.voter(2)))
        await until_all_know(cluster, set_of(cluster, 0, 1, 2))
        await cluster.stop()

    run_in_memory(7, story)


def test_a_broker_that_gives_up_only_the_last_of_two_lost_disks_is_refused() -> None:
    """The quorum knows the broker by the first one. `MemoryCluster.start` says so, and waits for nobody."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        await cluster.start()
        await cluster.stop(1)
        first = cluster.voter(2).directory_id or ""
        cluster.replace_disk(2)
        cluster.given_up_dirs.clear()
        cluster.replace_disk(2)
        with pytest.raises(MetaPropertiesError, match=first):
            await cluster.start()

    run_in_memory(7, story)


def test_the_same_id_on_an_empty_disk_is_another_voter() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        await cluster.start()
        before = set_of(cluster, 0, 1, 2)
        await cluster.stop(1)
        cluster.replace_disk(2)
        await cluster.start()
        await until_all_know(cluster, before)
        assert not before.names(2, cluster.voter(2).directory_id)
        await change(cluster, RemoveVoter(2, before.voters[2].directory_id or ""))
        await change(cluster, AddVoter(cluster.voter(2)))
        await until_all_know(cluster, set_of(cluster, 0, 1, 2))
        await cluster.stop()

    run_in_memory(7, story)


def test_a_controller_that_is_no_broker_names_its_process_to_the_leader_too() -> None:
    """So the leader can tell a voter's new process that lacks what the one before had acked (raft/progress.py)."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        config = parse_config(
            {
                "node.id": 0,
                "process.roles": ["controller"],
                "listeners": [f"CONTROLLER://{cluster.config(0).listener('CONTROLLER')}"],
                "controller.quorum.bootstrap.servers": [str(cluster.config(0).listener("CONTROLLER"))],
                "log.dirs": list(cluster.config(0).log_dirs),
            }
        )
        ids = []
        for _ in range(2):
            environment = cluster.environment(0)
            node = Node(config, open_log_dirs(config, environment, lambda progress: None), environment)
            await node.start()
            await node.stop()
            ids.append(node.quorum.raft.config.incarnation_id)
        assert all(ids) and ids[0] != ids[1]

    run_in_memory(15, story)
