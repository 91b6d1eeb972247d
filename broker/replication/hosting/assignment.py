"""What the metadata says of one replica of this broker: which topic it is of, in which role, with which settings.

Values only, handed from the metadata publisher to replica_assignments.py. Not here: taking the role (replica_roles.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from metadata.registrations import PartitionRegistration
from penstock.types import LeaderHint
from storage.log_config import FlushPolicy, LogConfig


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic's configuration means to its partitions."""

    log: LogConfig
    min_insync_replicas: int
    flush_policy: FlushPolicy = "fsync"


class Assignment(NamedTuple):
    """The newest word of the metadata."""

    topic_id: str
    state: PartitionRegistration
    settings: TopicSettings
    hint: LeaderHint
