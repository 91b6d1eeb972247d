"""Creates logs in three steps, because a disk may hang: `begin` decides where, `make` works, `end` takes the result.

`begin` and `end` ask no disk. Between them the log counts in its log dir, so that many logs that are begun together go
to different dirs, and no other log of its name is begun. `make` may run in any thread. The caller has the threads
(`broker/replication/hosting/log_creations.py`).

Not here: the work itself (`log_opener.py`), and which logs there are (`log_table.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set

from penstock.errors import KafkaStorageError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log_config import LogConfig
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_opener import LogOpener
from storage.log_dirs.log_removal import LogRemoval
from storage.log_dirs.log_table import LogTable


@dataclass(frozen=True, slots=True, eq=False)
class NewLog:
    """A log that is to be created, and where."""

    directory: LogDirectory
    topic_partition: TopicPartition
    topic_id: str
    config: LogConfig

    @property
    def log_dir(self) -> str:
        return self.directory.path


class LogCreation:
    """Creates logs in three steps. The directories, the table and the list are the log manager's own, and live."""

    def __init__(
        self,
        directories: Mapping[str, LogDirectory],
        table: LogTable,
        removal: LogRemoval,
        opener: LogOpener,
        unlisted_log_dirs: Sequence[str],
        offline_log_dirs: Mapping[str, PenstockError],
        cordoned: Set[str],
    ) -> None:
        """`unlisted_log_dirs` failed before their logs were known; one of the `cordoned` gets a new log only where no
        other can have it."""
        self._directories, self._table, self._removal, self._opener = directories, table, removal, opener
        self._unlisted_log_dirs, self._offline_log_dirs = unlisted_log_dirs, offline_log_dirs
        self._cordoned = cordoned
        self._begun: dict[TopicPartition, NewLog] = {}

    def begin(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        config: LogConfig,
        *,
        is_new: bool = False,
        log_dir: str | None = None,
        preferred_dir: str | None = None,
    ) -> Log | NewLog:
        """The log of the topic, or one to create: in `log_dir`, or else in `preferred_dir` where that can be used, or
        else in the log dir with the fewest logs that is not cordoned. The controller gives a broker whose log dirs are
        all cordoned no new replica; one that was decided before that has a log all the same.

        A log dir that failed before its logs were listed may have the log. Then only a partition that `is_new` in the
        cluster is created, because an empty replica must not replace one that has records.
        """
        if self._removal.holds_up(topic_partition, topic_id):
            raise KafkaStorageError(f"a log of {topic_partition} is being removed; create it when that is done")
        if topic_partition in self._begun:
            raise KafkaStorageError(f"{topic_partition} is being created")
        table = self._table
        known = (table.offline, table.left_behind)
        offline = next(filter(None, (logs.get_as(topic_partition, topic_id) for logs in known)), None)
        if offline is not None:
            raise KafkaStorageError(f"{offline.directory}: the log is offline: {offline.error}") from offline.error
        named = table.logs.named(topic_partition)
        if named:
            return self._as_log_of(named.get(topic_id) or next(iter(named.values())), topic_id)
        if self._unlisted_log_dirs and not is_new:
            dirs = ", ".join(self._unlisted_log_dirs)
            raise KafkaStorageError(
                f"{topic_partition} is in no working log dir, and may be in a failed one: {dirs}; repair that one first"
            )
        place = self._place_for(topic_partition, log_dir, preferred_dir)
        new = self._begun[topic_partition] = NewLog(place, topic_partition, topic_id, config)
        table.expect(place.path, 1)
        return new

    def _as_log_of(self, log: Log, topic_id: str) -> Log:
        """The log, which gets the topic id if it has none; InconsistentTopicIdError if it is another topic's."""
        before = log.topic_id
        self._opener.ensure_topic_id(log, topic_id)
        if before != topic_id:
            self._table.logs.put(log.topic_partition, topic_id, log)
            self._table.logs.pop(log.topic_partition, before)
        return log

    def _place_for(
        self, topic_partition: TopicPartition, log_dir: str | None, preferred_dir: str | None
    ) -> LogDirectory:
        """A log dir without an offline log of another topic with that name: its directory has the name already."""
        asked = None if log_dir is None else os.path.normpath(log_dir)
        directories = [found for path, found in self._directories.items() if asked in (None, path)]
        if not directories:
            raise KafkaStorageError(f"{topic_partition} cannot be created: {log_dir or 'every log dir'} is offline")
        others = self._table.offline.named(topic_partition).values()
        taken = {os.path.dirname(path): log.error for log in others for path in log.directories}
        free = [directory for directory in directories if directory.path not in taken]
        if not free:
            path = directories[0].path
            raise KafkaStorageError(f"{path}/{topic_partition}: the log is offline: {taken[path]}") from taken[path]
        paths = {directory.path: directory for directory in free}
        if preferred_dir in paths:
            return paths[preferred_dir]
        return min(free, key=lambda found: (found.path in self._cordoned, self._table.count_in(found.path)))

    def make(self, new: NewLog) -> Log:
        """Creates the log, which is not in use yet. Blocks, in any thread. KafkaStorageError when it cannot be
        created."""
        return self._opener.create(new.directory, new.topic_partition, new.topic_id, new.config)

    def end(self, new: NewLog, log: Log | None) -> None:
        """Takes the log into use; None: its creation failed, and nothing is in use. KafkaStorageError if its log dir
        has failed meanwhile."""
        del self._begun[new.topic_partition]
        self._table.expect(new.log_dir, -1)
        if log is None:
            return
        if self._directories.get(new.log_dir) is not new.directory:
            log.abandon(wait=False)
            why = self._offline_log_dirs.get(new.log_dir)
            raise KafkaStorageError(f"{log.directory}: its log dir has failed: {why}") from why
        self._table.add(log)

    def begun(self, topic_partition: TopicPartition) -> NewLog | None:
        """The log of that name that is being created."""
        return self._begun.get(topic_partition)

    def __contains__(self, topic_partition: object) -> bool:
        return topic_partition in self._begun

    def __repr__(self) -> str:
        return f"LogCreation({len(self._begun)} begun)"
