"""Promises about what the Spark source believes, over fake nodes in virtual time: node 1 is cut off, node 2 is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_cache import METADATA_OLD_MS
from penstock.client.options.config import ConnectionConfig
from penstock.spark import log_questions
from penstock.spark.log_questions import LogQuestions
from penstock.spark.planning import BrokerBehindError
from penstock.spark.positions import SourcePositions, StreamPosition, TopicPositions
from penstock.types import LATEST_TIMESTAMP, MetadataOffset, TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

CONFIG = ConnectionConfig(request_timeout_ms=2_000, bootstrap_timeout_ms=2_000)
TP = TopicPartition(TOPIC, 0)


def with_questions(story: Callable[[FakeNodes, LogQuestions], Awaitable[None]]) -> None:
    """A driver that begins anew, and whose only address is that of the broker that is cut off."""

    async def run() -> None:
        nodes = FakeNodes({0: 1}, 2, records=3)
        nodes.forget_news(1)
        nodes.elect(0, 2)
        cluster = ClusterClient(nodes.bootstrap[:1], CONFIG, fake_environment(nodes.network))
        try:
            await story(nodes, LogQuestions(cluster, 4_000))
        finally:
            await cluster.close()

    run_virtual(run())


def checkpoint(nodes: FakeNodes, epoch: int = -1, offset: int = -1) -> SourcePositions:
    metadata = MetadataOffset(nodes.cluster.cluster_id, offset)
    return SourcePositions({TOPIC: TopicPositions(nodes.topic_id, {0: StreamPosition(3, epoch)})}, metadata=metadata)


@pytest.mark.parametrize("what", ["epoch", "offset"])
def test_a_driver_that_begins_anew_asks_past_the_broker_that_is_behind_its_checkpoint(what: str) -> None:
    async def story(nodes: FakeNodes, questions: LogQuestions) -> None:
        heard = nodes.cluster.heard_offset
        await questions.remember(checkpoint(nodes, 1) if what == "epoch" else checkpoint(nodes, offset=heard))
        assert (await questions.list_offsets({TP: LATEST_TIMESTAMP}))[TP] == (3, 1)
        assert (await questions.describe([TOPIC]))[TOPIC].topic_id == nodes.topic_id
        assert (await questions.seen()).offset >= heard

    with_questions(story)


def test_where_no_newer_broker_answers_the_error_names_the_one_that_is_behind_and_is_no_loss() -> None:
    async def story(nodes: FakeNodes, questions: LogQuestions) -> None:
        nodes.hang(2)
        await questions.remember(checkpoint(nodes, 1))
        message = rf"as new as the checkpoint: {nodes.bootstrap[0]} is behind: .*Nothing was skipped"
        with pytest.raises(BrokerBehindError, match=message):
            await questions.list_offsets({TP: LATEST_TIMESTAMP})
        with pytest.raises(BrokerBehindError, match=message):
            await questions.describe([TOPIC])

    with_questions(story)


def test_a_deletion_is_not_believed_of_brokers_that_do_not_hear_from_the_quorum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ages = [METADATA_OLD_MS, METADATA_OLD_MS, 5]

    class Views:
        @property
        def statuses(self) -> list[object]:
            return [type("Status", (), {"node_id": 1, "metadata_age_ms": ages[0]})()]

    async def every_view(cluster: ClusterClient, deadline_ms: int) -> Views:
        if len(ages) > 1:
            ages.pop(0)
        return Views()

    monkeypatch.setattr(log_questions, "every_view", every_view)

    async def story(nodes: FakeNodes, questions: LogQuestions) -> None:
        assert list(await questions.newest_topics([TOPIC, "gone"])) == [TOPIC], "asked until one hears from the quorum"
        ages[:] = [METADATA_OLD_MS]
        with pytest.raises(BrokerBehindError, match="whether topic gone was deleted cannot be told: node 1 answered"):
            await questions.newest_topics(["gone"])

    with_questions(story)
