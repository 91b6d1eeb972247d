"""Every call of an admin client ends at its time limit, whenever the brokers stop to answer; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from penstock import AsyncAdmin, TopicPartition
from penstock.errors import ApiError, BootstrapError, TimedOutError
from penstock.messages.metadata import MetadataResponse
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual, virtual_clock

LIMIT_MS = 2_000
SLACK_MS = 10
T0 = TopicPartition(TOPIC, 0)
CALLS: dict[str, Callable[[AsyncAdmin], Awaitable[object]]] = {
    "create_topic": lambda admin: admin.create_topic("new"),
    "delete_topic": lambda admin: admin.delete_topic(TOPIC),
    "create_partitions": lambda admin: admin.create_partitions(TOPIC, 2),
    "create_partitions_of_topics": lambda admin: admin.create_partitions_of_topics({TOPIC: 2}),
    "delete_topics": lambda admin: admin.delete_topics([TOPIC]),
    "list_topics": lambda admin: admin.list_topics(),
    "describe_topic": lambda admin: admin.describe_topic(TOPIC),
    "describe_topics": lambda admin: admin.describe_topics(),
    "delete_records": lambda admin: admin.delete_records({T0: 0}),
    "delete_records of everything": lambda admin: admin.delete_records({T0: -1}),
    "describe_topic_config": lambda admin: admin.describe_topic_config(TOPIC),
    "describe_broker_config": lambda admin: admin.describe_broker_config(7),
    "describe_broker_config of all": lambda admin: admin.describe_broker_config(None),
    "alter_broker_config": lambda admin: admin.alter_broker_config(7, {"log.retention.ms": 1}),
    "alter_topic_configs": lambda admin: admin.alter_topic_configs({TOPIC: {"retention.ms": 1}}),
    "alter_topic_config": lambda admin: admin.alter_topic_config(TOPIC, {"retention.ms": 1}),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "cluster_health": lambda admin: admin.cluster_health(),
    "describe_quorum": lambda admin: admin.describe_quorum(),
    "add_voter": lambda admin: admin.add_voter(4, "D" * 22, "h:9193"),
    "remove_voter": lambda admin: admin.remove_voter(4, "D" * 22),
    "unregister_controller": lambda admin: admin.unregister_controller(4),
    "make_quorum_dynamic": lambda admin: admin.make_quorum_dynamic(),
    "describe_features": lambda admin: admin.describe_features(),
    "upgrade_features": lambda admin: admin.upgrade_features({"metadata.version": 2}),
    "downgrade_features": lambda admin: admin.downgrade_features({"metadata.version": 1}),
    "metadata_digests": lambda admin: admin.metadata_digests(),
    "describe_metadata": lambda admin: admin.describe_metadata(),
    "describe_metadata of a broker": lambda admin: admin.describe_metadata(5, 2),
    "list_offsets": lambda admin: admin.list_offsets([T0]),
    "list_offsets of no partition": lambda admin: admin.list_offsets([TopicPartition(TOPIC, 9)]),
}


async def know_topic(admin: AsyncAdmin) -> None:
    await admin.list_offsets([T0])


async def know_nothing(admin: AsyncAdmin) -> None:
    """It was never asked for anything."""


@pytest.mark.parametrize("before", [know_topic, AsyncAdmin.start, know_nothing])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_ends_at_its_time_limit_though_no_broker_answers(
    call: str, before: Callable[[AsyncAdmin], Awaitable[None]]
) -> None:
    async def story() -> None:
        nodes = FakeNodes({0: 1}, 2)
        bootstrap, clock = ",".join(map(str, nodes.bootstrap)), virtual_clock()
        environment = fake_environment(nodes.network)
        admin = AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=LIMIT_MS)
        await before(admin)
        for node in (1, 2):
            nodes.hang(node)
        began_ms = clock.now_ms()
        with pytest.raises((ApiError, TimedOutError, BootstrapError)):
            await CALLS[call](admin)
        assert clock.now_ms() - began_ms <= LIMIT_MS + SLACK_MS
        await admin.close()

    run_virtual(story())


def test_silence_of_every_broker_is_no_news_of_a_change() -> None:
    async def story() -> None:
        nodes = FakeNodes({0: 1}, 2)
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=LIMIT_MS) as admin:
            nodes.cluster.metadata_offset = 10**9  # no broker has heard of it
            change = asyncio.ensure_future(admin.alter_topic_config(TOPIC, {"retention.ms": 5}))
            await asyncio.sleep(LIMIT_MS / 4 / 1000)
            for node in (1, 2):
                nodes.hang(node)
            with pytest.raises(TimedOutError, match="the change was made, but"):
                await change

    run_virtual(story())


@pytest.mark.parametrize(
    ("call", "asked", "message"),
    [
        ("create_topic", 1, "topic 'new' was created, but"),
        ("delete_topic", 2, "topic 't' was deleted, but"),
        ("create_partitions", 2, "the change was made, but"),
        ("create_partitions", 3, "topic 't' has 2 partitions now, but"),
        ("alter_topic_config", 1, "the change was made, but"),
    ],
)
def test_a_change_that_was_made_is_said_to_be_so_though_no_broker_answers_after_it(
    call: str, asked: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All brokers fall silent at the call's question for the metadata of this number, which comes after the change."""

    async def story() -> None:
        nodes, questions = FakeNodes({0: 1}, 2), count(1)
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=LIMIT_MS) as admin:
            refresh = admin._cluster.refresh

            async def refresh_in_silence(*arguments: Any, **options: Any) -> MetadataResponse:
                if next(questions) == asked:
                    nodes.hang(1)
                    nodes.hang(2)
                return await refresh(*arguments, **options)

            monkeypatch.setattr(admin._cluster, "refresh", refresh_in_silence)
            with pytest.raises(TimedOutError, match=message):
                await CALLS[call](admin)

    run_virtual(story())


def test_the_health_of_a_cluster_with_a_silent_node_is_told_within_the_time_limit() -> None:
    async def story() -> None:
        nodes, clock = FakeNodes({0: 1}, 2), virtual_clock()
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=LIMIT_MS) as admin:
            nodes.hang(2)
            began_ms = clock.now_ms()
            await admin.cluster_health()
            assert clock.now_ms() - began_ms <= LIMIT_MS + SLACK_MS

    run_virtual(story())
