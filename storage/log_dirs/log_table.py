"""Knows which logs of a node are in use, which are offline, and which are gone though they held flushed records.

A log is known by its name *and* its topic id. A topic that was deleted and made anew has the same name and another id,
and the old log may still be here: its log dir failed before the log could be deleted, or came back with a restart. An
id of "" is of a log that has none yet, or whose id cannot be read: it may be of any topic of that name.

Changed on one thread; read in any. Not here: opening and creating (`log_manager.py`), taking out (`log_removal.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from penstock.errors import PenstockError
from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log.log_types import OfflineLog

T = TypeVar("T")
_NONE: Mapping[str, object] = {}


class LogId(NamedTuple):
    """Identifies a log."""

    topic_partition: TopicPartition
    topic_id: str

    @classmethod
    def of(cls, log: Log) -> LogId:
        return cls(log.topic_partition, log.topic_id)


class ByLogId(Generic[T]):
    """A value for each log; all logs of one name are found without looking at the others."""

    __slots__ = ("_named",)

    def __init__(self) -> None:
        self._named: dict[TopicPartition, dict[str, T]] = {}

    def get(self, topic_partition: TopicPartition, topic_id: str) -> T | None:
        return self.named(topic_partition).get(topic_id)

    def get_as(self, topic_partition: TopicPartition, topic_id: str) -> T | None:
        """The value of the topic's log, or else of the log whose id is not known: it may be the topic's."""
        named = self.named(topic_partition)
        return named.get(topic_id, named.get(""))

    def named(self, topic_partition: TopicPartition) -> Mapping[str, T]:
        """The values of one name, by topic id; the mapping is live."""
        return self._named.get(topic_partition, _NONE)  # type: ignore[arg-type]

    def put(self, topic_partition: TopicPartition, topic_id: str, value: T) -> None:
        self._named.setdefault(topic_partition, {})[topic_id] = value

    def pop(self, topic_partition: TopicPartition, topic_id: str) -> T | None:
        named = self._named.get(topic_partition)
        value = named.pop(topic_id, None) if named is not None else None
        if named is not None and not named:
            del self._named[topic_partition]
        return value

    def names(self) -> tuple[TopicPartition, ...]:
        return tuple(self._named)

    def items(self) -> tuple[tuple[LogId, T], ...]:
        """All of them as they are now; may be called in any thread."""
        return tuple(self._items())

    def _items(self) -> Iterator[tuple[LogId, T]]:
        for topic_partition, named in tuple(self._named.items()):
            for topic_id, value in tuple(named.items()):
                yield LogId(topic_partition, topic_id), value

    def ids(self) -> tuple[LogId, ...]:
        return tuple(log_id for log_id, _ in self._items())

    def values(self) -> tuple[T, ...]:
        return tuple(value for _, value in self._items())

    def clear(self) -> None:
        self._named.clear()

    def __len__(self) -> int:
        return sum(map(len, self._named.values()))

    def __repr__(self) -> str:
        return f"ByLogId({', '.join(map(str, self._named))})"


class LogTable:
    """The logs of a node: in use, offline, left behind or gone."""

    def __init__(self) -> None:
        self.logs: ByLogId[Log] = ByLogId()
        self.offline: ByLogId[OfflineLog] = ByLogId()
        """Logs that a replica here waits for, or that a person must look at."""
        self.left_behind: ByLogId[OfflineLog] = ByLogId()
        """Logs in log dirs that failed, which no replica here waits for any more: it was deleted or moved away since. A
        replica of the same topic may not begin with an empty log: the old one may be back after the next start."""
        self.vanished: ByLogId[str] = ByLogId()
        """The old paths of logs that had flushed records and are gone. A new log of that topic removes the entry."""
        self.renamed: set[str] = set()
        """Directories of offline logs that have another name by now: no checkpoint keeps their lines. Changed in any
        thread, BEFORE the lines go."""
        self._counts: Counter[str] = Counter()

    def add(self, log: Log) -> None:
        """The log is in use from now on."""
        self.forget_vanished(log.topic_partition, log.topic_id)
        self.logs.put(log.topic_partition, log.topic_id, log)
        self._counts[log.log_dir] += 1

    def forget_vanished(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """No replica waits for that log any more, nor for one whose topic is not known."""
        self.vanished.pop(topic_partition, topic_id)
        self.vanished.pop(topic_partition, "")

    def replace(self, log: Log, new: Log) -> None:
        """`new` is the same log in another place, and in use from now on."""
        self.logs.put(new.topic_partition, new.topic_id, new)
        self._counts[log.log_dir] -= 1
        self._counts[new.log_dir] += 1

    def drop(self, log: Log) -> None:
        """The log is out of use. Waits for no disk: a thread may still be in the middle of a change of its files."""
        if self.logs.get(log.topic_partition, log.topic_id) is log:
            self.logs.pop(log.topic_partition, log.topic_id)
            self._counts[log.log_dir] -= 1
        log.abandon(wait=False)

    def take_offline(self, log: Log, why: PenstockError) -> None:
        """The log is out of use, and stays where it is. Checkpoints say how far it was flushed: without that, the next
        start would take rot for a torn tail."""
        flushed = log.claimed_recovery_point
        offline = OfflineLog(log.directory, why, topic_id=log.topic_id, recovery_point=flushed, settle=log.abandon)
        self.offline.put(log.topic_partition, log.topic_id, offline)  # BEFORE, so that a checkpoint finds it in either
        self.drop(log)

    def id_here(self, topic_partition: TopicPartition, topic_id: str) -> str:
        """The id under which the topic's log is here, in use or offline; "" if no log has the topic's id."""
        names = (self.logs.named(topic_partition), self.offline.named(topic_partition))
        return topic_id if any(topic_id in named for named in names) else ""

    def is_of_others(self, topic_partition: TopicPartition, topic_id: str) -> bool:
        """Logs of that name are here, and all of them are of other topics."""
        ids = self.logs.named(topic_partition).keys() | self.offline.named(topic_partition).keys()
        return bool(ids) and not ids & {topic_id, ""}

    def logs_in(self, log_dir: str) -> tuple[Log, ...]:
        """The logs in use in one log dir; no two of them have the same name."""
        return tuple(log for log in self.logs.values() if log.log_dir == log_dir)

    def expect(self, log_dir: str, count: int) -> None:
        """Notes that `count` more logs (negative: fewer) are being created in the log dir: `count_in` includes them."""
        self._counts[log_dir] += count

    def count_in(self, log_dir: str) -> int:
        """The number of logs in the log dir, those that are being created included. Looks at none of them."""
        return self._counts[log_dir]

    def __repr__(self) -> str:
        return f"LogTable({len(self.logs)} logs, {len(self.offline)} offline, {len(self.vanished)} vanished)"
