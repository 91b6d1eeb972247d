"""The metadata of one replica of this broker: the id of its topic, its role and its settings.

Values only, handed from the metadata publisher to replica_assignments.py. Not here: taking the role (replica_roles.py).
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.registrations import PartitionRegistration
from penstock.lazy_dataclass import dataclass
from penstock.types import LeaderHint
from storage.log_config import FlushPolicy, LogConfig


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The part of a topic's configuration that its partitions need."""

    log: LogConfig
    min_insync_replicas: int
    flush_policy: FlushPolicy = "fsync"


class Assignment(NamedTuple):
    """One replica, as the newest metadata has it."""

    topic_id: str
    state: PartitionRegistration
    settings: TopicSettings
    hint: LeaderHint
