"""A client's knowledge of a topic never goes back, even if a node that lags answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client.cluster.cluster import UNKNOWN_TOPIC_GRACE_MS, ClusterClient
from penstock.client.consumer.fetching.effects import ReportError
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.raw.raw_buffer import RawRange
from penstock.client.options.config import ConnectionConfig, consumer_config
from penstock.errors import TopicRecreatedError
from penstock.messages.metadata import MetadataResponse, TopicInfo
from penstock.types import TopicPartition
from tests.support.client_environment import buffer_of, fake_environment, nothing
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

CONFIG = ConnectionConfig(request_timeout_ms=5_000, bootstrap_timeout_ms=5_000)
TP = TopicPartition(TOPIC, 0)


def with_cluster(story: Callable[[ClusterClient, FakeNodes], Awaitable[None]]) -> None:
    async def run() -> None:
        nodes = FakeNodes({0: 1}, 2)
        cluster = ClusterClient(nodes.bootstrap, CONFIG, fake_environment(nodes.network))
        try:
            await story(cluster, nodes)
        finally:
            await cluster.close()

    run_virtual(run())


def test_a_topic_that_no_refresh_asks_for_is_asked_for_before_it_is_used() -> None:
    async def story(cluster: ClusterClient, nodes: FakeNodes) -> None:
        await cluster.refresh((TOPIC,))
        nodes.make_anew({0: 1})
        assert (await cluster.topic(TOPIC, 1_000)).topic_id == nodes.topic_id

    with_cluster(story)


@pytest.mark.parametrize("wanted", ["new", "gone"])
def test_a_range_of_a_topic_that_was_made_after_the_client_looked_is_read_and_of_one_that_is_gone_is_not(
    wanted: str,
) -> None:
    async def story(cluster: ClusterClient, nodes: FakeNodes) -> None:
        await cluster.topic(TOPIC, 1_000)
        nodes.make_anew({0: 1})
        positions, buffer = Positions("none", cluster.backoff), buffer_of(1 << 20)
        fetcher = Fetcher(cluster, positions, buffer, consumer_config({}), nothing)
        began_ms = cluster.clock.now_ms()
        await fetcher.assign_range(RawRange(TP, 0, 5, nodes.topic_id if wanted == "new" else "gone"))
        report = buffer.take()
        if wanted == "gone":
            assert isinstance(report, ReportError) and isinstance(report.error, TopicRecreatedError)
            assert cluster.clock.now_ms() - began_ms <= UNKNOWN_TOPIC_GRACE_MS + 1_000
        else:
            assert report is None and positions.wanted(1, cluster.cache, 1, cluster.clock.now_ms())
        await fetcher.close()

    with_cluster(story)


def test_a_list_of_topics_is_not_older_than_what_was_seen_before_nor_is_what_comes_after_it() -> None:
    async def story(cluster: ClusterClient, nodes: FakeNodes) -> None:
        nodes.forget_news(1)
        nodes.make_anew({0: 1})
        await cluster.refresh((TOPIC,), avoid=nodes.bootstrap[:1])
        for _ in range(4):
            deadline_ms = cluster.clock.now_ms() + 5_000
            assert [topic.topic_id for topic in await cluster.list_topics(deadline_ms)] == [nodes.topic_id]

    with_cluster(story)


def test_an_answer_in_several_parts_is_as_old_as_its_oldest() -> None:
    def part(name: str, offset: int) -> Any:
        return MetadataResponse("c", 1, (), (TopicInfo(name, "id", ()),), offset)

    both = part("a", 5).joined(part("b", 7))
    assert [topic.name for topic in both.topics] == ["a", "b"] and both.metadata_offset == 5
