"""Finds the partitions that `penstock consume` can read now, and the ends where it stops with --exit-at-end.

A partition without a leader does not hold up the others: it is reported on stderr once, and looked up again every
LOOK_MS. Its end is learned when it has a leader again. The command fails when only partitions without a leader are left
for PATIENCE_MS. Reading and printing are in consume.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.cli.output import note
from penstock.clock import Clock
from penstock.errors import ConfigError, LeaderNotAvailableError, PenstockError
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from penstock import Consumer
    from penstock.client.admin.admin_types import PartitionInfo, TopicDescription

LOOK_MS = 2_000
"""How often the cluster is asked for the leaders: cheap, and soon enough after an election."""
PATIENCE_MS = 30_000
"""The time that a client waits for one answer (request_timeout_ms). An election takes less."""


class Leaders:
    """Knows which partitions of some topics have no leader, and why; of all partitions, of those with `numbers`, or of
    those that `places` has for a topic."""

    def __init__(
        self,
        describe: Callable[[], Sequence[TopicDescription]],
        clock: Clock,
        numbers: Collection[int] | None = None,
        places: Mapping[str, Collection[int]] | None = None,
    ) -> None:
        self._describe = describe
        self._numbers, self._places = numbers, places or {}
        self._clock = clock
        self._looked_ms = 0
        self._noted: set[TopicPartition] = set()
        self.offline: dict[TopicPartition, str] = {}

    def look(self) -> list[TopicPartition]:
        """The partitions to read. Reports each without a leader once; ConfigError for a number that is not there."""
        self._looked_ms = self._clock.now_ms()
        found = {
            TopicPartition(topic.name, info.partition): info
            for topic in self._describe()
            for info in self._chosen(topic)
        }
        self.offline = {tp: str(info.error or "no leader now") for tp, info in found.items() if info.leader_id < 0}
        for tp, why in self.offline.items():
            if tp not in self._noted:
                note(f"{tp} cannot be read now: it has {why}. The other partitions are read")
        self._noted.update(self.offline)
        return list(found)

    def _chosen(self, topic: TopicDescription) -> Sequence[PartitionInfo]:
        numbers = self._places.get(topic.name) or self._numbers
        if not numbers:
            return topic.partitions
        missing = set(numbers) - {info.partition for info in topic.partitions}
        if missing:
            last = topic.partition_count - 1
            given = f"{topic.name}:{min(missing)}" if self._places.get(topic.name) else f"--partition {min(missing)}"
            raise ConfigError(f"{given}: {topic.name} has the partitions 0 to {last}")
        return [info for info in topic.partitions if info.partition in numbers]

    def maybe_look(self) -> list[TopicPartition]:
        """Looks again when the last look is LOOK_MS old; the partitions to read, or none if there was no look. If no
        broker answers, the last result stays in force."""
        if self._clock.now_ms() - self._looked_ms < LOOK_MS:
            return []
        try:
            return self.look()
        except PenstockError:
            return []  # the consumer asks the same brokers, and raises what is wrong with them


class Ends:
    """The end of each partition when the command began, or when the partition had a leader again."""

    def __init__(
        self,
        consumer: Consumer,
        partitions: Iterable[TopicPartition],
        leaders: Leaders,
        clock: Clock,
        limits: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._limits = limits  # a partition is read up to here, should its end be behind it
        self._consumer = consumer
        self._leaders = leaders
        self._clock = clock
        self._log_ends: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}  # where reading stops: at the limit, if that comes first
        self._left = dict.fromkeys(partitions)  # not yet read to their end; in the given order
        self._placed: set[TopicPartition] = set()  # their position is known: `position` does not ask a broker
        self._stuck_since_ms: int | None = None

    def is_reached(self) -> bool:
        """True if every partition is read; LeaderNotAvailableError if the rest has no leader for PATIENCE_MS."""
        offline = self._leaders.offline
        self._learn([tp for tp in self._left if tp not in self._ends and tp not in offline])
        for tp in [tp for tp in self._left if tp in self._ends and (tp in self._placed or tp not in offline)]:
            position = int(self._consumer.position(tp))
            if tp not in self._placed and self._is_beyond(tp, position):
                continue  # poll raises what is wrong with it
            self._placed.add(tp)
            if position >= self._ends[tp]:
                del self._left[tp]
        self._check_patience()
        return not self._left

    def is_before(self, record: Any) -> bool:
        """True if the record is below the end of its partition."""
        tp = TopicPartition(record.topic, record.partition)
        if tp not in self._ends:  # the partition has a leader again since the last look
            self._learn([tp])
        return bool(record.offset < self._ends[tp])

    def _is_beyond(self, tp: TopicPartition, position: int) -> bool:
        """True if the log does not reach to `position`, where reading was to begin, not now either."""
        if position > self._log_ends[tp]:
            self._log_ends |= self._consumer.end_offsets([tp])
        return position > self._log_ends[tp]

    def _learn(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            ends = self._consumer.end_offsets(partitions)
            self._log_ends |= ends
            self._ends |= {tp: min(end, self._limits.get(tp, end)) for tp, end in ends.items()}

    def _check_patience(self) -> None:
        offline = self._leaders.offline
        if not self._left or any(tp not in offline for tp in self._left):
            self._stuck_since_ms = None
            return
        now_ms = self._clock.now_ms()
        if self._stuck_since_ms is None:
            self._stuck_since_ms = now_ms
        if now_ms - self._stuck_since_ms >= PATIENCE_MS:
            reasons = "; ".join(f"{tp} has {offline[tp]}" for tp in self._left)
            raise LeaderNotAvailableError(f"not read to the end, after {PATIENCE_MS} ms without a leader: {reasons}")
