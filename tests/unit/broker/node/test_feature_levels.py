"""Whole nodes of several releases: levels are raised and lowered, nodes restart, and the too old ones are refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from broker.node.node import Node
from broker.quorum.metadata_loader import UnsupportedFeatureLevelError
from metadata.features import METADATA_VERSION, TABLE
from penstock import AsyncAdmin
from penstock.errors import InvalidRequestError, InvalidUpdateVersionError, MetaPropertiesError
from penstock.messages.feature_apis import UPDATE_FEATURES
from penstock.messages.features import FeatureUpdate, FeatureUpgradeType, UpdateFeaturesRequest
from penstock.messages.voters import VoterChangeResponse, VoterRequest
from storage.disk.file_names import parse_metadata_snapshot
from tests.support.memory_cluster import MemoryCluster, run_in_memory
from tests.unit.metadata.test_features import LATER, OLD

TO_2, TO_1 = {METADATA_VERSION: 2}, {METADATA_VERSION: 1}
SOON = {"controller.quorum.fetch.timeout.ms": 600, "controller.quorum.election.timeout.ms": 300}


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within a minute")


def admin_of(cluster: MemoryCluster) -> AsyncAdmin:
    return AsyncAdmin(cluster.bootstrap(), environment=cluster.clients())


def version_at(node: Node) -> int:
    return TABLE.level(node.loader.image.levels, METADATA_VERSION)


def snapshots_at(cluster: MemoryCluster, index: int) -> int:
    directory = f"{cluster.config(index).metadata_log_dir}/__cluster_metadata-0"
    names = cluster.disks[index].listdir(directory)
    return sum(parse_metadata_snapshot(name) is not None for name in names)


async def restarted(cluster: MemoryCluster, index: int) -> Node:
    """The last node stops in order, and starts again on its disk."""
    assert index == len(cluster.nodes) - 1
    await cluster.stop(1)
    await cluster.start(1)
    return cluster.nodes[-1]


def test_levels_are_raised_on_all_nodes_stay_over_restarts_and_go_into_snapshots() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        async with admin_of(cluster) as admin:
            before = await admin.describe_features()
            assert [node.ranges for node in before.nodes] == [before.nodes[0].ranges] * 3 and before.nodes[0].ranges
            await admin.upgrade_features(TO_2)
            assert [version_at(node) for node in cluster.nodes] == [2, 2, 2], "all have heard of it"
            again = await restarted(cluster, 2)
            await until(lambda: version_at(again) == 2)
            assert again.loader.image.brokers[2].features == TABLE.said
            lost = await admin.downgrade_features(TO_1)
            assert "brokers 2" in lost.lost[0]
            await until(lambda: all(snapshots_at(cluster, index) == 1 for index in range(3)))
            assert [node.loader.image.brokers[2].features for node in cluster.nodes] == [""] * 3
        await cluster.stop()

    run_in_memory(1, story, config=SOON)


def test_a_cluster_of_this_release_begins_with_its_levels_and_one_of_an_older_format_does_not() -> None:
    async def newest(cluster: MemoryCluster) -> None:
        cluster.format(levels=TABLE.newest())
        await cluster.start()
        assert [version_at(node) for node in cluster.nodes] == [2, 2, 2]
        assert {broker.features for broker in cluster.nodes[0].loader.image.brokers.values()} == {TABLE.said}
        await cluster.stop()
        await cluster.start()
        assert [version_at(node) for node in cluster.nodes] == [2, 2, 2]
        await cluster.stop()

    async def older(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        assert [version_at(node) for node in cluster.nodes] == [1, 1, 1]
        await cluster.stop()

    run_in_memory(2, newest)
    run_in_memory(2, older)


def test_an_older_node_hinders_a_raise_until_it_is_upgraded() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.features[2] = OLD
        cluster.format()
        await cluster.start()
        async with admin_of(cluster) as admin:
            with pytest.raises(InvalidUpdateVersionError, match=r"node 2 is too old.*install release 0\.3\.0"):
                await admin.upgrade_features(TO_2)
            await cluster.stop(1)
            await asyncio.sleep(3)
            with pytest.raises(InvalidUpdateVersionError, match="node 2 is away"):
                await admin.upgrade_features(TO_2)
            cluster.features.clear()
            await cluster.start(1)
            await admin.upgrade_features(TO_2)
        assert [version_at(node) for node in cluster.nodes] == [2, 2, 2]
        await cluster.stop()

    run_in_memory(3, story, config=SOON)


def test_an_older_node_does_not_come_in_at_a_level_that_it_does_not_know() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        async with admin_of(cluster) as admin:
            await admin.upgrade_features(TO_2)
        await cluster.stop(1)
        cluster.features[2] = OLD
        node = cluster.node(2)
        await node.start()
        error = await asyncio.wait_for(asyncio.shield(node.fatal), 30)
        assert isinstance(error, UnsupportedFeatureLevelError | MetaPropertiesError)
        assert "release 0.3.0 or a newer one" in str(error)
        await node.stop()
        await cluster.stop()

    run_in_memory(4, story, config=SOON)


def test_a_node_goes_back_to_the_older_release_after_the_lowering() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format(levels=TABLE.newest())
        await cluster.start()
        async with admin_of(cluster) as admin:
            await admin.downgrade_features(TO_1)
            await cluster.stop(1)
            cluster.features[2] = OLD
            await cluster.start(1)
            await admin.create_topic("t", 1)
            await until(lambda: cluster.nodes[2].loader.image.topic("t") is not None)
            found = await admin.describe_features()
            assert [bool(node.ranges) for node in found.nodes] == [True, True, False]
        await cluster.stop()

    run_in_memory(5, story, config=SOON)


def test_an_empty_disk_joins_with_the_older_release_though_the_power_failed_after_the_lowering() -> None:
    """The controllers dropped the log before the lowering. Came it back with their next start, they would send it."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1)
        await cluster.start()
        async with admin_of(cluster) as admin:
            await admin.upgrade_features(TO_2)
            await admin.downgrade_features(TO_1)
            await until(lambda: all(snapshots_at(cluster, index) == 1 for index in range(3)))
            await cluster.cut_power()
            await cluster.start()
            await cluster.stop()
            cluster.features = dict.fromkeys(range(3), OLD)
            cluster.replace_disk(2)
            await cluster.start(2)
            node = cluster.node(2)
            await node.start()
            await until(lambda: node.fatal.done() or node.loader.image.offset > 0)
            assert not node.fatal.done()
            await node.stop()
        await cluster.stop()

    run_in_memory(14, story, config=SOON)


def test_another_controller_goes_on_with_a_raise() -> None:
    """It leads since a moment ago, and waits until it has heard of everybody."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        async with admin_of(cluster) as admin:
            leader = next(node for node in cluster.nodes if node.raft.is_leader)
            raising = asyncio.ensure_future(admin.upgrade_features(TO_2))
            await asyncio.sleep(0)
            loop = leader.raft._loop
            assert loop is not None
            loop.resign()
            await raising
            assert [version_at(node) for node in cluster.nodes] == [2, 2, 2]
        await cluster.stop()

    run_in_memory(6, story, config=SOON)


def test_a_controller_of_a_later_release_has_a_level_more() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.features = {0: LATER, 1: LATER}
        cluster.format(levels=TABLE.newest())
        await cluster.start()
        async with admin_of(cluster) as admin:
            with pytest.raises(InvalidUpdateVersionError, match=r"0\.4\.0|does not know it, it knows"):
                await admin.upgrade_features({METADATA_VERSION: 3})
        await cluster.stop()

    run_in_memory(7, story, config=SOON)


def test_kraft_version_is_raised_beside_others_and_nothing_is_done_where_one_is_refused() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        async with admin_of(cluster) as admin:
            with pytest.raises(InvalidUpdateVersionError, match=r"no\.such"):
                await admin.upgrade_features({"kraft.version": 1, "no.such": 1})
            assert not cluster.nodes[0].raft.voters.is_dynamic
            dry = await admin.upgrade_features({"kraft.version": 1, **TO_2}, dry_run=True)
            assert dry.refusal is None and not cluster.nodes[0].raft.voters.is_dynamic
            done = await admin.upgrade_features({"kraft.version": 1, **TO_2})
            assert [(one.name, one.before) for one in done.changes] == [("kraft.version", 0), (METADATA_VERSION, 1)]
            assert cluster.nodes[0].raft.voters.is_dynamic and version_at(cluster.nodes[0]) == 2
            with pytest.raises(InvalidUpdateVersionError, match="cannot become static again"):
                await admin.downgrade_features({"kraft.version": 0})
            with pytest.raises(InvalidUpdateVersionError, match="knows 0 and 1"):
                await admin.upgrade_features({"kraft.version": 2})
            twice = UpdateFeaturesRequest((FeatureUpdate("kraft.version", 1), FeatureUpdate("kraft.version", 1)))
            with pytest.raises(InvalidRequestError, match="twice"):
                await cluster.ask(cluster.endpoint(0), UPDATE_FEATURES.name, twice)
        await cluster.stop()

    run_in_memory(8, story, config=SOON)


def test_kraft_version_is_hindered_by_a_node_that_is_away_as_every_other_feature() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        await cluster.stop()
        await cluster.start(2)
        async with admin_of(cluster) as admin:
            dry = await admin.upgrade_features({"kraft.version": 1}, dry_run=True)
            assert [(one.node_id, one.feature) for one in dry.hindrances] == [(2, "kraft.version")]
            with pytest.raises(InvalidUpdateVersionError, match="node 2 is away"):
                await admin.upgrade_features({"kraft.version": 1, **TO_2})
            assert not cluster.nodes[0].raft.voters.is_dynamic and version_at(cluster.nodes[0]) == 1
        await cluster.stop()

    run_in_memory(12, story, config=SOON)


def test_an_answer_says_that_kraft_version_is_made_where_a_node_goes_away_before_the_others() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        leader = next(node for node in cluster.nodes if node.raft.is_leader)
        other = next(node for node in cluster.nodes if node is not leader)
        made = leader.quorum._voter_requests.handle

        async def handle(request: VoterRequest) -> VoterChangeResponse:
            answer = await made(request)
            await other.stop()
            await asyncio.sleep(3)
            return answer

        leader.quorum._voter_requests.handle = handle  # type: ignore[method-assign]
        both = UpdateFeaturesRequest((FeatureUpdate("kraft.version", 1), FeatureUpdate(METADATA_VERSION, 2)))
        answer = await cluster.ask(cluster.endpoint(cluster.nodes.index(leader)), UPDATE_FEATURES.name, both)
        assert leader.raft.voters.is_dynamic and version_at(leader) == 1
        assert [result.error is None for result in answer.results] == [True, False]
        assert re.search("kraft.version is 1 now, and nothing else was changed: .* is away", str(answer.error))
        await cluster.stop()

    run_in_memory(13, story, config=SOON)


def test_a_controller_that_does_not_know_the_levels_may_not_vote() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        cluster.features[1] = OLD
        await cluster.start()
        voter, admin = cluster.voter(1), admin_of(cluster)
        async with admin:
            await cluster.ask(
                cluster.endpoint(0),
                UPDATE_FEATURES.name,
                UpdateFeaturesRequest((FeatureUpdate(METADATA_VERSION, 1, FeatureUpgradeType.SAFE_DOWNGRADE),)),
            )
            await admin.add_voter(1, voter.directory_id or "", str(voter.endpoints[0].endpoint))
            assert cluster.nodes[0].raft.voters.ids == (0, 1), "at metadata.version 1 everybody may"
        unfit = cluster.nodes[0].quorum._unfit_for
        assert unfit("") == "" and "NAME=FIRST-LAST" in unfit("nonsense")
        await cluster.stop()

    run_in_memory(9, story, config=SOON)
