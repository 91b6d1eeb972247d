"""DescribeLogDirs: this broker's log dirs, the room on their disks, and the size of each replica in them (KIP-113).

Every replica that lies there counts, whether it is served or not; the metadata log is no replica of a topic.
Sizes are what the logs know by themselves, and the room is what the job `disk-room` saw last: no disk is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.jobs.log_dir_moves.moves import MoveView
from broker.network.request_channel import Request
from penstock.errors import KafkaStorageError, PenstockError
from penstock.messages.admin_apis import DESCRIBE_LOG_DIRS
from penstock.messages.log_dirs import (
    NOT_KNOWN,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirReplica,
    LogDirTopic,
)
from penstock.messages.security.acls import Operation
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.disk.file_system import DiskRoom
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager

UNSEEN = DiskRoom(NOT_KNOWN, NOT_KNOWN)


class DescribeLogDirsApi:
    """Answers at once, on the event loop."""

    def __init__(
        self,
        node_id: int,
        log_manager: LogManager,
        rooms: Callable[[], Mapping[str, DiskRoom]],
        moves: Callable[[], Mapping[TopicPartition, MoveView]] = dict,
    ) -> None:
        """`rooms()` has what is known of the disks, by log dir; `moves()` the replicas that move between log dirs."""
        self._moves = moves
        self._node_id = node_id
        self._log_manager = log_manager
        self._rooms = rooms

    def handle(self, request: Request, body: DescribeLogDirsRequest) -> None:
        wanted = frozenset(body.topics)
        logs: defaultdict[str, list[Log]] = defaultdict(list)
        for log in self._log_manager.logs():
            topic = log.topic_partition.topic
            if topic != METADATA_TOPIC and (not wanted or topic in wanted):
                logs[log.log_dir].append(log)
        copies = self._copies(wanted)
        rooms, offline = self._rooms(), self._log_manager.offline_log_dirs
        in_use = [
            self._described(path, None, rooms.get(path, UNSEEN), logs[path], copies[path])
            for path in self._log_manager.checkpoints.log_dirs
        ]
        failed = [self._described(path, error, UNSEEN, [], []) for path, error in offline.items()]
        request.complete(DescribeLogDirsResponse(self._node_id, (*in_use, *failed)))

    def _copies(self, wanted: frozenset[str]) -> dict[str, list[LogDirTopic]]:
        """The copies of replicas that move, by the log dir to which they do."""
        copies: defaultdict[str, list[LogDirTopic]] = defaultdict(list)
        for tp, move in self._moves().items():
            if not wanted or tp.topic in wanted:
                for topic_id, log in self._log_manager.table.logs.named(tp).items():
                    end = max(log.log_end_offset - move.offset_lag, 0)
                    start = min(log.log_start_offset, end)
                    lag, left, waits_for = move.offset_lag, move.bytes_left, move.waits_for
                    copy = LogDirReplica(
                        partition=tp.partition,
                        size_bytes=move.size_bytes,
                        log_start_offset=start,
                        log_end_offset=end,
                        is_future=True,
                        offset_lag=lag,
                        bytes_left=left,
                        waits_for=waits_for,
                    )
                    copies[move.log_dir].append(LogDirTopic(tp.topic, topic_id, (copy,)))
        return copies

    def _described(
        self,
        path: str,
        error: PenstockError | None,
        room: DiskRoom,
        logs: list[Log],
        copies: list[LogDirTopic],
    ) -> LogDir:
        known = self._log_manager.meta_properties.get(path)
        return LogDir(
            path=path,
            directory_id=known.directory_id if known is not None else "",
            error=KafkaStorageError(str(error)) if error is not None else None,
            total_bytes=room.size_bytes,
            usable_bytes=room.free_bytes,
            topics=(*_by_topic(logs), *copies),
            is_cordoned=path in self._log_manager.cordoned,
        )


def _by_topic(logs: list[Log]) -> tuple[LogDirTopic, ...]:
    topics: defaultdict[tuple[str, str], list[LogDirReplica]] = defaultdict(list)
    for log in logs:
        name, partition = log.topic_partition
        replica = LogDirReplica(partition, log.size_bytes, log.log_start_offset, log.log_end_offset)
        topics[name, log.topic_id].append(replica)
    return tuple(LogDirTopic(name, topic_id, tuple(replicas)) for (name, topic_id), replicas in topics.items())


SERVED: Final = (
    Served(
        api=DESCRIBE_LOG_DIRS,
        rule=of_cluster(Operation.DESCRIBE),
        make=lambda parts: (
            DescribeLogDirsApi(parts.node_id, parts.log_manager, parts.disk_rooms, parts.log_dir_moves.views).handle
        ),
    ),
)
