"""Opens the logs in a log dir, and creates new ones, with the settings of one node's configuration.

A failed creation, for example on a full disk, removes what it made. If it cannot, a log without records remains, which
the next creation there uses as it is, and a stop in order removes. The loader's threads use this object too, so it
never changes. `log_loading.py` and `log_manager.py` know the set of logs, and what an error means for the other logs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from penstock.errors import CorruptFileError, InconsistentTopicIdError, KafkaStorageError
from penstock.threads import Threads
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.append.producer_ids import ProducerIds
from storage.disk.disk_errors import storage_error
from storage.disk.file_names import LOG_SUFFIX, partition_directory
from storage.disk.file_system import FileSystem, remove_tree
from storage.disk.partition_metadata import read_topic_id, remove_topic_id, sync_topic_id, write_topic_id
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_manager_config import LogManagerConfig
from storage.recovery.recovery import LastKnown
from storage.segment.open_files import OpenFiles


class LogOpener:
    """Opens and creates logs with the settings of one node's configuration."""

    def __init__(
        self,
        fs: FileSystem,
        config: LogManagerConfig,
        open_files: OpenFiles,
        producer_ids: ProducerIds,
        threads: Threads,
    ) -> None:
        self._fs, self._config, self._threads = fs, config, threads
        self._open_files, self._producer_ids = open_files, producer_ids

    def open(self, directory: LogDirectory, topic_partition: TopicPartition, config: LogConfig | None = None) -> Log:
        """Open the log in the dir; CorruptFileError or OSError when it cannot be used."""
        if config is None:
            config_for = self._config.config_for
            config = config_for(topic_partition) if config_for is not None else self._config.log_config
        path = self.path(directory, topic_partition)
        last_known = directory.last_known(topic_partition)
        topic_id = self._topic_id(path, last_known)
        options = self._options(directory, topic_id, last_known)
        if self._config.before_doubtful_cut is not None:
            before_cut = partial(self._config.before_doubtful_cut, topic_partition, path)
            options = replace(options, before_doubtful_cut=before_cut)
        return Log(self._fs, path, topic_partition, config, options)

    def open_as(
        self,
        path: str,
        topic_partition: TopicPartition,
        topic_id: str,
        config: LogConfig,
        last_known: LastKnown,
        directory: LogDirectory | None,
    ) -> Log:
        """Open the log in a directory of which the caller knows how far it was flushed; without a log dir, it is no log
        of the node: it has no line in a checkpoint, and does not count."""
        options = self._options(directory, topic_id, last_known) if directory else self._apart(topic_id, last_known)
        return Log(self._fs, path, topic_partition, config, options)

    def _apart(self, topic_id: str, last_known: LastKnown) -> LogOptions:
        producer_ids = ProducerIds(self._config.producer_ids, self._producer_ids.clock, self._threads)
        return LogOptions(self._threads, topic_id=topic_id, last_known=last_known, producer_ids=producer_ids)

    def path(self, directory: LogDirectory, topic_partition: TopicPartition) -> str:
        return f"{directory.path}/{partition_directory(topic_partition)}"

    def topic_id_if_known(self, directory: LogDirectory, topic_partition: TopicPartition) -> str | None:
        """The topic id of the log in the dir, without opening it: "" if it was never flushed and holds no records; None
        if it cannot be read."""
        path = self.path(directory, topic_partition)
        try:
            topic_id = self._topic_id_in(path)
            if topic_id or directory.last_known(topic_partition).recovery_point != 0:
                return topic_id or None
            sizes = [self._fs.size(f"{path}/{name}") for name in self._fs.listdir(path) if name.endswith(LOG_SUFFIX)]
        except OSError:
            return None
        return None if any(sizes) else ""

    def _topic_id_in(self, path: str) -> str:
        try:
            return read_topic_id(self._fs, path) or ""
        except CorruptFileError:
            return ""

    def _topic_id(self, path: str, last_known: LastKnown) -> str:
        """The topic id; "" if a crash came before the first flush of the log, which then holds no acked record.

        A killed process may leave the file only in the page cache: it is synced BEFORE the log is used.
        """
        try:
            topic_id = read_topic_id(self._fs, path) or ""
        except CorruptFileError:
            if last_known.recovery_point != 0:
                raise
            remove_topic_id(self._fs, path)  # BEFORE recovery claims that the log is flushed: then damage would be rot
            return ""
        if topic_id and not last_known.clean:
            sync_topic_id(self._fs, path, topic_id)
        return topic_id

    def _options(self, directory: LogDirectory, topic_id: str, last_known: LastKnown) -> LogOptions:
        return LogOptions(
            self._threads,
            topic_id=topic_id,
            flush_policy=self._config.flush_policy,
            last_known=last_known,
            lower_checkpoints=directory.lower_checkpoints,
            open_files=self._open_files,
            producer_ids=self._producer_ids,
            on_segment_checked=self._config.on_segment_checked,
            rolls_when_flushed=self._config.rolls_when_flushed,
            probe=self._config.probe,
        )

    def create(self, directory: LogDirectory, topic_partition: TopicPartition, topic_id: str, config: LogConfig) -> Log:
        """A new, empty log in the dir; KafkaStorageError when it cannot be created."""
        path = self.path(directory, topic_partition)
        try:
            directory.lower_checkpoints(topic_partition, 0)  # of an earlier log with this name
            if self._fs.exists(path):
                return self._finish(directory, topic_partition, topic_id, config)
        except OSError as error:
            raise storage_error("create a log", path, error) from error
        try:
            return Log.create(self._fs, path, topic_partition, config, self._options(directory, topic_id, LastKnown()))
        except KafkaStorageError as error:
            if isinstance(error.__cause__, FileExistsError):  # the directory was there before: never removed
                raise
            try:
                remove_tree(self._fs, path)
            except FileNotFoundError:
                pass
            except OSError:
                directory.unfinished.add(path)
            raise

    def _finish(
        self, directory: LogDirectory, topic_partition: TopicPartition, topic_id: str, config: LogConfig
    ) -> Log:
        """Use the directory that a failed creation left; nothing in it is durable."""
        log = self.open(directory, topic_partition, config)
        self.ensure_topic_id(log, topic_id)
        write_topic_id(self._fs, log.directory, topic_id)
        self._fs.fsync_dir(log.directory)
        self._fs.fsync_dir(directory.path)
        directory.unfinished.discard(log.directory)
        return log

    def ensure_topic_id(self, log: Log, topic_id: str) -> None:
        """Raises unless the log is the topic's; an empty log without a topic id gets it. So does the metadata log with
        records, which survived a power cut before its first flush: no other log ever has its name."""
        if log.topic_id == topic_id:
            return
        if log.topic_id or (log.size_bytes and log.topic_partition.topic != METADATA_TOPIC):
            raise InconsistentTopicIdError(
                f"{log.directory} belongs to topic id {log.topic_id or '(none)'}, not {topic_id}; set it aside as stray"
            )
        try:
            log.take_topic_id(topic_id)
        except OSError as error:
            raise storage_error("write the topic id", log.directory, error) from error

    def __repr__(self) -> str:
        return f"LogOpener({self._config.flush_policy})"
