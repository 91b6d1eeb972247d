"""One topic: its partitions with their leaders, ISRs, offsets and sizes, and its configuration with the sources."""

from __future__ import annotations

import asyncio

from penstock.client.admin.admin_types import PartitionInfo, TopicDescription
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.client.cluster.offsets import OffsetInfo
from penstock.console.page import PageAsked, PartTime
from penstock.console.pages.brokers import log_dirs_or_refusal
from penstock.console.pages.topics import is_in_trouble, leader_size
from penstock.errors import ApiError, TimedOutError
from penstock.lazy_dataclass import dataclass
from penstock.messages.configs import ConfigEntry
from penstock.types import TopicPartition

Offsets = dict[TopicPartition, OffsetInfo]


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition, in the words of `penstock topics describe`."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    earliest: int | None
    """The first offset that can be read; None where the leader does not say."""
    latest: int | None
    size_bytes: int | None
    is_in_trouble: bool
    error: str


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic."""

    name: str
    topic_id: str
    metadata_age_ms: int
    partitions: tuple[PartitionRow, ...]
    configs: tuple[ConfigEntry, ...]
    configs_error: str
    """The right that is missing."""
    offsets_error: str
    """Why some offsets are not known; of several reasons the first."""
    missing_right: str


async def show_topic(asked: PageAsked) -> TopicView:
    """Asks for the topic first, and then its leaders and brokers at once."""
    name = asked.fields.text("name")
    topic = await asked.admin.describe_topic(name)
    (configs, configs_error), (earliest, latest, offsets_error), (log_dirs, refusal) = await asyncio.gather(
        _configs(asked, name), _offsets(asked, topic), log_dirs_or_refusal(asked, None, (name,))
    )
    return TopicView(
        name=topic.name,
        topic_id=topic.topic_id,
        metadata_age_ms=topic.metadata_age_ms,
        partitions=tuple(_row(topic, p, earliest, latest, log_dirs) for p in topic.partitions),
        configs=configs,
        configs_error=configs_error,
        offsets_error=offsets_error,
        missing_right=refusal,
    )


async def _configs(asked: PageAsked, name: str) -> tuple[tuple[ConfigEntry, ...], str]:
    try:
        async with PartTime().part():
            entries = await asked.admin.describe_topic_config(name)
    except (ApiError, TimedOutError) as error:
        return (), str(error)
    return tuple(entry for _, entry in sorted(entries.items(), key=lambda one: (one[1].is_default, one[0]))), ""


async def _offsets(asked: PageAsked, topic: TopicDescription) -> tuple[Offsets, Offsets, str]:
    """The offsets of the partitions that have a leader: the others would be waited for. Each leader is asked by itself,
    so that one which hangs hides no offsets but its own."""
    led: dict[int, list[TopicPartition]] = {}
    for p in topic.partitions:
        if p.leader_id >= 0 and p.error is None:
            led.setdefault(p.leader_id, []).append(TopicPartition(topic.name, p.partition))
    earliest, latest, errors, time = Offsets(), Offsets(), list[str](), PartTime()

    async def of_leader(partitions: list[TopicPartition]) -> None:
        try:
            async with time.part():
                firsts, ends = await asyncio.gather(
                    asked.admin.list_offsets(dict.fromkeys(partitions, "earliest")),
                    asked.admin.list_offsets(partitions),
                )
        except (ApiError, TimedOutError) as error:
            errors.append(str(error))
        else:
            earliest.update(firsts)
            latest.update(ends)

    await asyncio.gather(*map(of_leader, led.values()))
    return earliest, latest, errors[0] if errors else ""


def _row(
    topic: TopicDescription,
    p: PartitionInfo,
    earliest: Offsets,
    latest: Offsets,
    log_dirs: dict[int, BrokerLogDirs],
) -> PartitionRow:
    at = TopicPartition(topic.name, p.partition)
    return PartitionRow(
        partition=p.partition,
        leader_id=p.leader_id,
        leader_epoch=p.leader_epoch,
        replicas=p.replicas,
        isr=p.isr,
        elr=p.elr,
        earliest=earliest[at].offset if at in earliest else None,
        latest=latest[at].offset if at in latest else None,
        size_bytes=leader_size(topic, p, log_dirs),
        is_in_trouble=is_in_trouble(p),
        error="" if p.error is None else str(p.error),
    )
