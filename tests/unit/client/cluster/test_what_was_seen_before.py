"""A client that begins anew is told what was seen before it, and then believes no broker that has heard less.

A broker that is cut off from the others answers all the same, with its old metadata and its old leaders. In virtual
time, over fake nodes: node 1 is cut off, node 2 has heard of a new leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_cache import METADATA_OLD_MS
from penstock.client.cluster.offsets import list_offsets
from penstock.client.options.config import ConnectionConfig
from penstock.errors import ReplicaNotAvailableError
from penstock.types import LATEST_TIMESTAMP, NO_LEADER, TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.client.cluster.test_metadata_cache import cache_with, snapshot

CONFIG = ConnectionConfig(request_timeout_ms=5_000, bootstrap_timeout_ms=5_000)
TP = TopicPartition(TOPIC, 0)


def with_nodes(story: Callable[[FakeNodes, Callable[[], ClusterClient]], Awaitable[None]]) -> None:
    """Node 1 leads in its own eyes; the others have elected node 2. `begin` makes a client that begins anew, and whose
    bootstrap address is node 1's."""

    async def run() -> None:
        nodes, made = FakeNodes({0: 1}, 2, records=3), []

        def begin() -> ClusterClient:
            made.append(ClusterClient(nodes.bootstrap[:1], CONFIG, fake_environment(nodes.network)))
            return made[-1]

        nodes.forget_news(1)
        nodes.elect(0, 2)
        try:
            await story(nodes, begin)
        finally:
            for cluster in made:
                await cluster.close()

    run_virtual(run())


@pytest.mark.parametrize("known", ["offset", "epoch"])
def test_a_client_that_is_told_goes_past_the_broker_that_is_behind(known: str) -> None:
    async def story(nodes: FakeNodes, begin: Callable[[], ClusterClient]) -> None:
        uninformed, cluster = begin(), begin()
        await uninformed.refresh((TOPIC,))
        assert uninformed.cache.leader(TP) == (1, 0), "the first answer wins, where nothing is known"
        if known == "offset":
            cluster.cache.note_offset(nodes.cluster.cluster_id, nodes.cluster.heard_offset)
        else:
            cluster.cache.note_epoch(TP, nodes.topic_id, 1)
        found = await list_offsets(cluster, {TP: LATEST_TIMESTAMP}, 5_000)
        assert cluster.cache.leader(TP) == (2, 1)
        assert found[TP].offset == 3

    with_nodes(story)


def test_where_only_the_broker_that_is_behind_answers_an_error_names_it_and_what_it_lacks() -> None:
    async def story(nodes: FakeNodes, begin: Callable[[], ClusterClient]) -> None:
        nodes.hang(2)
        cluster = begin()
        cluster.cache.note_epoch(TP, nodes.topic_id, 1)
        began_ms = virtual_clock().now_ms()
        message = f"{nodes.bootstrap[0]} is behind: it has t-0 led by node 1 in epoch 0, and epoch 1 was seen before"
        with pytest.raises(ReplicaNotAvailableError, match=message):
            await cluster.refresh((TOPIC,))
        assert virtual_clock().now_ms() - began_ms <= 2 * CONFIG.request_timeout_ms

    with_nodes(story)


def test_a_broker_that_has_not_heard_from_the_quorum_loses_against_any_other() -> None:
    async def story(nodes: FakeNodes, begin: Callable[[], ClusterClient]) -> None:
        nodes.cluster.frozen_metadata[1].metadata_age_ms = METADATA_OLD_MS
        for _ in range(4):
            cluster = begin()
            await cluster.refresh((TOPIC,))
            assert cluster.cache.leader(TP) == (2, 1)
        nodes.hang(2)
        alone = begin()
        await alone.refresh((TOPIC,))
        assert alone.cache.leader(TP) == (1, 0), "an old answer is better than none"

    with_nodes(story)


def test_the_first_contact_waits_a_moment_for_a_better_answer_than_an_old_one() -> None:
    async def story(nodes: FakeNodes, begin: Callable[[], ClusterClient]) -> None:
        nodes.cluster.frozen_metadata[1].metadata_age_ms = METADATA_OLD_MS
        cluster = ClusterClient(nodes.bootstrap, CONFIG, fake_environment(nodes.network))
        try:
            cluster.track((TOPIC,))
            await cluster.wait_ready()
            assert cluster.cache.leader(TP) == (2, 1)
        finally:
            await cluster.close()

    with_nodes(story)


def test_a_quorum_that_was_made_anew_from_an_older_log_is_believed_once_it_has_passed_what_was_seen() -> None:
    """ops/procedures/lose-the-quorum.md says what to do: every broker lacks what only the lost voters had."""

    async def story(nodes: FakeNodes, begin: Callable[[], ClusterClient]) -> None:
        lived_on, informed = begin(), begin()
        await lived_on.refresh((TOPIC,))
        nodes.cluster.frozen_metadata.clear()
        seen = nodes.cluster.heard_offset + 10_000
        for cluster in (lived_on, informed):  # the second one by a checkpoint of Spark
            cluster.cache.note_offset(nodes.cluster.cluster_id, seen)
            with pytest.raises(ReplicaNotAvailableError, match=f"and {seen} was seen before"):
                await cluster.refresh((TOPIC,))
        begun_anew = begin()
        await begun_anew.refresh((TOPIC,))
        assert begun_anew.cache.leader(TP) == (2, 1)
        nodes.cluster.heard_offset = seen
        for cluster in (lived_on, informed):
            await cluster.refresh((TOPIC,))
            assert cluster.cache.leader(TP) == (2, 1)

    with_nodes(story)


def test_another_cluster_is_not_measured_by_what_was_seen_of_the_first() -> None:
    cache = cache_with(1, 4)
    cache.note_offset("another", 99)
    cache.update(snapshot(2, 5, metadata_offset=1), 1)
    assert cache.leader(TP) == (2, 5)


def test_an_epoch_that_was_seen_takes_the_leader_away_that_is_known_until_a_newer_one_is() -> None:
    cache = cache_with(1, 4)
    cache.note_epoch(TP, "id", 6)
    assert cache.leader(TP) is None and cache._leaders[TP] == (NO_LEADER, 6)
    assert cache.is_stale(snapshot(1, 5)) and not cache.is_stale(snapshot(2, 6))
    assert not cache.is_stale(snapshot(1, 0, topic_id="made anew")), "another topic's epochs begin anew"
    cache.update(snapshot(2, 6), 1)
    assert cache.leader(TP) == (2, 6)
