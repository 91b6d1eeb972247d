"""Asks a cluster for what the console remembers, part by part, and tells the core.

Six parts are asked beside each other, each in its own rhythm and with its own deadline: the brokers, the topics, the
end offsets, the groups with their lags, the sizes of log dirs, and a small question to each broker whose answer is
timed. A broker that hangs costs the parts that need it, and no others. A round's questions are bounded: topics and
groups are taken in turn (rotation.py), and a part whose work grows with the cluster pauses longer after a round that
took long. To wait for a broker that is away is no work: a round that ended in an error is followed by the next one in
its rhythm, and so are the two small questions, because just then people look. For the same reason the quickest of the
last rounds counts: a single one that waited for a broker's time-out makes nobody wait for what happens.

All times are those of the monotonic clock that goes on while the machine sleeps. Not here: what the answers mean
(last_hour.py), and who is told that something has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from penstock.admin import (
    BrokerLogDirs,
    ClusterInfo,
    GroupDescription,
    GroupListing,
    OffsetInfo,
    PartitionLag,
    TopicDescription,
)
from penstock.clock import Clock
from penstock.console.watching.last_hour import LastHour
from penstock.console.watching.rotation import Rotation
from penstock.console.watching.round_sample import GroupSample, RoundSample
from penstock.errors import AuthorizationFailedError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER, TopicPartition

_log = logging.getLogger(__name__)

PART_SECONDS: Final = 8.0
PROBE_SECONDS: Final = 2.0
"""A broker that does not answer a small question for this time counts as silent."""
PAUSE_TIMES: Final = 20
PAUSE_MS_MAX: Final = 30_000
ROUNDS_JUDGED: Final = 3
"""Rounds of a part that must all have been long before it pauses for longer."""
SMALL: Final = ("brokers", "probes")
"""The parts whose questions stay small, however large the cluster is."""
REFUSED_PAUSE_MS: Final = 60_000
"""A part that the console's user has no right to is tried again after this time."""
PARTITIONS_A_ROUND: Final = 3_000
GROUPS_A_ROUND: Final = 100
LEADERS_AT_ONCE: Final = 8
SIZES_TIMES: Final = 12
"""Sizes are asked for once in so many rounds."""


class WatchedCluster(Protocol):
    """The calls of an AsyncAdmin that the sampler needs."""

    async def describe_cluster(self) -> ClusterInfo: ...
    async def describe_topics(self, *, ask_leaders: bool = True) -> list[TopicDescription]: ...
    async def list_offsets(
        self, partitions: Mapping[TopicPartition, int | str] | Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetInfo]: ...
    async def list_groups(self) -> list[GroupListing]: ...
    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]: ...
    async def group_lags(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, PartitionLag]]: ...
    async def describe_log_dirs(self) -> dict[int, BrokerLogDirs]: ...


@dataclass(frozen=True, slots=True)
class SamplerStatistics:
    """A snapshot. `errors`: why a part was not answered the last time, by the name of the part."""

    rounds: Mapping[str, int]
    errors: Mapping[str, str]


class Sampler:
    """Asks one cluster, as one user, and tells one LastHour; `on_change` is called after each answer."""

    def __init__(
        self, cluster: WatchedCluster, hour: LastHour, clock: Clock, on_change: Callable[[], object] = lambda: None
    ) -> None:
        self._cluster, self._hour, self._clock, self._on_change = cluster, hour, clock, on_change
        self._topics: dict[str, TopicDescription] = {}
        self._topic_turns = Rotation(PARTITIONS_A_ROUND)
        self._group_turns = Rotation(GROUPS_A_ROUND)
        self._rounds: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._waited: set[str] = set()
        """The parts of which a broker was silent in this round: to wait for it is no work of the cluster."""

    async def run(self) -> None:
        """Asks until it is cancelled."""
        step_ms = self._hour.limits.step_ms
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._repeat("brokers", step_ms, self._ask_cluster))
            parts.create_task(self._repeat("topics", step_ms, self._ask_topics))
            parts.create_task(self._repeat("offsets", step_ms, self._ask_ends))
            parts.create_task(self._repeat("groups", step_ms, self._ask_groups))
            parts.create_task(self._repeat("probes", step_ms, self._ask_probes))
            parts.create_task(self._repeat("sizes", step_ms * SIZES_TIMES, self._ask_sizes))

    def statistics(self) -> SamplerStatistics:
        """A snapshot."""
        return SamplerStatistics(dict(self._rounds), dict(self._errors))

    async def _repeat(self, part: str, every_ms: int, ask: Callable[[], Awaitable[RoundSample]]) -> None:
        last_ms: deque[int] = deque(maxlen=ROUNDS_JUDGED)
        while True:
            begun_ms = self._clock.boot_ms()
            pause_ms = every_ms
            self._waited.discard(part)
            try:
                async with asyncio.timeout(PART_SECONDS):
                    sample = await ask()
                self._errors.pop(part, None)
                self._hour.observe(self._clock.boot_ms(), sample)
                self._on_change()
            except AuthorizationFailedError as error:
                self._errors[part], pause_ms = str(error), REFUSED_PAUSE_MS
            except TimeoutError:
                self._waited.add(part)
                self._errors[part] = f"no answer within {PART_SECONDS:.0f} s"
            except PenstockError as error:
                self._waited.add(part)
                self._errors[part] = str(error)
            except Exception as error:  # an answer that no node of ours gives ends no other part, nor this one for ever
                self._errors[part] = f"the answer cannot be understood: {type(error).__name__}"
                _log.exception("the console does not understand an answer: %s", part)
            self._rounds[part] = self._rounds.get(part, 0) + 1
            last_ms.append(self._clock.boot_ms() - begun_ms)
            is_work = part not in SMALL and part not in self._waited
            work_ms = min(last_ms) if is_work else 0
            await asyncio.sleep(next_pause_ms(pause_ms, last_ms[-1], work_ms) / 1000)

    # -- the parts -----------------------------------------------------------------------------------------------------

    async def _ask_cluster(self) -> RoundSample:
        return RoundSample(cluster=await self._cluster.describe_cluster())

    async def _ask_topics(self) -> RoundSample:
        topics = await self._cluster.describe_topics(ask_leaders=False)
        self._topics = {topic.name: topic for topic in topics}
        return RoundSample(topics=topics)

    async def _ask_ends(self) -> RoundSample:
        taken = self._topic_turns.take({name: len(topic.partitions) for name, topic in self._topics.items()})
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in taken:
            for p in self._topics[name].partitions:
                if p.leader_id != NO_LEADER and p.leader_id not in self._hour.silent_brokers:
                    by_leader.setdefault(p.leader_id, []).append(TopicPartition(name, p.partition))
        turns = asyncio.Semaphore(LEADERS_AT_ONCE)
        errors: list[PenstockError] = []

        async def of_leader(partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetInfo]:
            async with turns:
                try:
                    async with asyncio.timeout(PART_SECONDS / 2):
                        return await self._cluster.list_offsets(partitions)
                except TimeoutError:
                    self._waited.add("offsets")
                    return {}
                except PenstockError as error:
                    errors.append(error)
                    return {}

        answers = await asyncio.gather(*map(of_leader, by_leader.values()))
        found = {tp: info.offset for answer in answers for tp, info in answer.items()}
        if errors and not found:
            raise errors[0]
        return RoundSample(ends=found)

    async def _ask_probes(self) -> RoundSample:
        led: dict[int, tuple[TopicPartition, int]] = {}
        for topic in self._topics.values():
            for p in topic.partitions:
                if p.leader_id != NO_LEADER:
                    led.setdefault(p.leader_id, (TopicPartition(topic.name, p.partition), p.leader_epoch))
        probes: dict[int, float | None] = {}

        async def probe(broker: int, tp: TopicPartition, leader_epoch: int) -> None:
            begun_ns = self._clock.now_ns()
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    answers = await self._cluster.list_offsets([tp])
            except (TimeoutError, PenstockError):
                self._waited.add("probes")
                probes[broker] = None
                return
            if all(info.leader_epoch <= leader_epoch for info in answers.values()):  # else another leader has answered
                probes[broker] = (self._clock.now_ns() - begun_ns) / 1e6

        await asyncio.gather(*(probe(broker, *asked) for broker, asked in led.items()))
        return RoundSample(probes=probes)

    async def _ask_groups(self) -> RoundSample:
        listed = [group.group_id for group in await self._cluster.list_groups()]
        taken = self._group_turns.take(dict.fromkeys(listed, 1))
        if not taken:
            return RoundSample(listed_groups=())
        described = await self._cluster.describe_groups(taken)
        known = [group_id for group_id, group in described.items() if group.error is None]
        lags = await self._cluster.group_lags(known) if known else {}
        groups = {group_id: _group_sample(described[group_id], lags.get(group_id, {})) for group_id in known}
        return RoundSample(listed_groups=listed, groups=groups)

    async def _ask_sizes(self) -> RoundSample:
        if not self._topics:
            return RoundSample()
        return RoundSample(record_bytes=record_bytes(await self._cluster.describe_log_dirs(), self._topics))

    def __repr__(self) -> str:
        return f"Sampler({self._hour!r})"


def next_pause_ms(every_ms: int, took_ms: int, work_ms: int) -> int:
    """The pause after a round that took so long: the rest of its time, or PAUSE_TIMES its work if that is more."""
    return min(max(every_ms - took_ms, work_ms * PAUSE_TIMES, 1), max(PAUSE_MS_MAX, every_ms))


def record_bytes(log_dirs: Mapping[int, BrokerLogDirs], topics: Mapping[str, Any]) -> dict[str, float]:
    """About how many bytes a record of each topic takes: the sizes of all its replicas by their numbers of records."""
    sizes: dict[str, int] = {}
    records: dict[str, int] = {}
    for broker in log_dirs.values():
        for log_dir in broker.log_dirs:
            for tp, replica in log_dir.replicas.items():
                sizes[tp.topic] = sizes.get(tp.topic, 0) + replica.size_bytes
                held = max(0, replica.log_end_offset - replica.log_start_offset)
                records[tp.topic] = records.get(tp.topic, 0) + held
    return {topic: sizes[topic] / count for topic, count in records.items() if count and topic in topics}


def _group_sample(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> GroupSample:
    return GroupSample(
        state=group.state,
        members=len(group.members),
        committed={tp: lag.committed.offset for tp, lag in lags.items() if lag.committed is not None},
        lags={tp: lag.lag for tp, lag in lags.items() if lag.lag is not None},
    )
