"""Reads the log dirs of brokers as a plan needs them: which replicas are where, which may move, and what has room.

Replicas that go to other brokers, or whose topic was deleted, are not counted: they are gone soon. Replicas that come
from other brokers, or move between log dirs already, are counted and left alone. Not here: the plan
(penstock/balance/dirs/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.balance.dirs.broker_dirs import BalancedDir, BrokerDirs, DirReplica
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock.balance.cluster import BalancedPartition, ClusterState
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.log_dir_info import LogDirInfo
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.types import TopicPartition

ROOM_KEPT_PERCENT = 5
"""Share of a disk that stays free: replicas grow while they are copied, and what leaves a log dir takes its room for a
while yet."""


@dataclass(frozen=True, slots=True)
class ReadDirs:
    """The brokers in service, and what is not known of them."""

    brokers: tuple[BrokerDirs, ...]
    silent: Mapping[int, str]  # the brokers in service that do not say: why
    offline: Mapping[tuple[int, str], str]  # the log dirs that are offline: why
    out_of_service: tuple[int, ...] = ()  # brokers
    under_way: int = 0  # replicas that move between log dirs already


def read_dirs(admin: Admin, state: ClusterState) -> ReadDirs:
    """The log dirs of the brokers of this state as they are now."""
    from penstock import TopicPartition

    partitions = {TopicPartition(each.topic, each.index): each for each in state.partitions}
    in_service = {broker.broker_id for broker in state.brokers if broker.in_service}
    answers = {id_: found for id_, found in sorted(admin.describe_log_dirs().items()) if id_ in in_service}
    answered = [found for found in answers.values() if found.error is None]
    brokers = tuple(BrokerDirs(each.node_id, tuple(_dirs(each, partitions))) for each in answered)
    silent = {id_: str(found.error) for id_, found in answers.items() if found.error is not None}
    offline = {(each.node_id, one.path): str(one.error) for each in answered for one in each.log_dirs if one.error}
    under_way = sum(len(one.coming) for each in answered for one in each.log_dirs)
    out_of_service = tuple(broker.broker_id for broker in state.brokers if not broker.in_service)
    return ReadDirs(brokers, silent, offline, out_of_service, under_way)


def room_in(log_dir: LogDirInfo) -> int | None:
    """Bytes that may come to it in addition to what comes already; None where its broker does not know its disk."""
    if log_dir.usable_bytes < 0:
        return None
    kept = max(log_dir.total_bytes, 0) * ROOM_KEPT_PERCENT // 100
    return log_dir.usable_bytes - kept - sum(copy.bytes_left for copy in log_dir.coming.values())


def _dirs(found: BrokerLogDirs, partitions: Mapping[TopicPartition, BalancedPartition]) -> Iterator[BalancedDir]:
    going = {tp: log_dir.path for log_dir in found.log_dirs for tp in log_dir.coming}
    placed: dict[str, list[DirReplica]] = {log_dir.path: [] for log_dir in found.log_dirs}
    for log_dir in found.log_dirs:
        for tp, replica in log_dir.replicas.items():
            known = partitions.get(tp)
            if known is None or known.topic_id != replica.topic_id or found.node_id not in known.replicas:
                continue
            stays = known.moving or tp in going
            here = DirReplica(tp.topic, tp.partition, replica.size_bytes, replica.topic_id, stays)
            placed[going.get(tp, log_dir.path)].append(here)
    for log_dir in found.log_dirs:
        yield BalancedDir(
            log_dir.path, tuple(placed[log_dir.path]), room_in(log_dir), log_dir.error is None, log_dir.is_cordoned
        )
