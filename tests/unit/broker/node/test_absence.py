"""Everything that can be done with three nodes can be done with one of them away, by both protocols, however it
went."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock import AsyncAdmin, AsyncProducer, TopicPartition
from penstock.errors import ApiError
from tests.support.absence.kafka_calls import KafkaCalls, Refused
from tests.support.absence.page import reference
from tests.support.absence.stage import (
    AWAY,
    FENCED,
    KINDS,
    PRESENT,
    STOPPED,
    UNREGISTERED,
    BothProtocolsCluster,
    Kind,
    Stage,
)
from tests.support.absence.table import ACTS, DONE, LIMIT_SECONDS, PROTOCOLS, REFUSED, WAITS, outcome
from tests.support.amount import at_night

BACK_SECONDS = 30
RECORDS = 3
LIKE_GONE = (FENCED, STOPPED)
"""The table has the same outcomes for them as for a broker that is dead and comes back with another disk."""


async def tried(stage: Stage, act: Callable[[Stage], Awaitable[None]]) -> str:
    """The outcome, as in the table."""
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            await act(stage)
    except ApiError as error:
        return error.kafka_name
    except Refused as error:
        return error.name
    except TimeoutError:
        return WAITS
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return DONE


async def prepared(stage: Stage, kind: Kind) -> None:
    """The topics that the acts find. Where the absent one is to be unregistered, it has no replica."""
    admin, everybody = stage.admin, PRESENT if kind is UNREGISTERED else (*PRESENT, AWAY)
    one = AWAY if kind is not UNREGISTERED else PRESENT[1]
    for name in ("before", "before-by-hand", "read", "grpc-trimmed", "kafka-trimmed", "grpc-deleted", "kafka-deleted"):
        await admin.create_topic(name, assignments=[everybody])
    await admin.create_topic("two", assignments=[PRESENT])
    for protocol in ("grpc", "kafka"):
        await admin.create_topic(f"{protocol}-left", assignments=[(one, PRESENT[0])])
        await admin.create_topic(f"{protocol}-elected", assignments=[PRESENT])
        await admin.alter_partition_reassignments({TopicPartition(f"{protocol}-elected", 0): PRESENT[::-1]})
    cluster = stage.cluster
    async with AsyncProducer(cluster.bootstrap(), environment=cluster.clients(), linger_ms=0) as producer:
        for name, count in (("read", 1), ("grpc-trimmed", RECORDS), ("kafka-trimmed", RECORDS)):
            for _ in range(count):
                await (await producer.send(name, b"value"))


def run(kind: Kind, story: Callable[[Stage], Awaitable[None]], seed: int = 1) -> None:
    cluster = BothProtocolsCluster(seed, {}, kind.log_dirs)

    async def main() -> None:
        cluster.format()
        await cluster.start()
        calls = KafkaCalls(cluster.network, cluster.memory.process, cluster.kafka_endpoint)
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            await story(Stage(cluster, admin, calls, kind))
        await cluster.stop()

    cluster.memory.run(main())


@pytest.mark.parametrize("kind", at_night(KINDS, LIKE_GONE), ids=lambda kind: kind.name)
def test_each_act_is_done_or_refused_as_the_table_says_by_both_protocols(kind: Kind) -> None:
    async def story(stage: Stage) -> None:
        await prepared(stage, kind)
        await kind.goes(stage)
        found, wanted = {}, {}
        for act in ACTS:
            for protocol in PROTOCOLS:
                if (by := act.by(protocol)) is not None:
                    if kind.each is not None:
                        await kind.each(stage)
                    found[act.name, protocol] = await tried(stage, by)
                    wanted[act.name, protocol] = outcome(act, kind)
        wrong = {key: (found[key], wanted[key]) for key in found if found[key] != wanted[key]}
        assert not wrong, wrong
        await kind.comes(stage)
        await back(stage)

    run(kind, story)


async def back(stage: Stage) -> None:
    """Everything that was made meanwhile has all of its replicas in sync, also those of the one that was away."""

    async with asyncio.timeout(BACK_SECONDS):
        await stage.until(lambda: stage.image.is_active(AWAY))
        await stage.until_in_sync()
    for name in stage.made & stage.image.topics_by_name.keys():
        for partition in stage.image.topics_by_name[name].partitions.values():
            assert AWAY in partition.isr


def test_every_refusal_is_of_an_act_of_the_table() -> None:
    names = {act.name for act in ACTS}
    assert len(names) == len(ACTS)
    for refusal in REFUSED:
        assert set(refusal.acts) <= names and set(refusal.kinds) <= set(KINDS)


def test_the_page_is_made_of_the_table() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "while-a-broker-is-away.md"
    assert page.read_text(encoding="utf-8") == reference(), (
        "run python -m tests.support.absence.page > docs/while-a-broker-is-away.md"
    )
