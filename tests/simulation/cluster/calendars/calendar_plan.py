"""The calendars of a plan: which node's is wrong, by how much, and when it is set. Plain data, as all of plan.py.

Not here: how it is drawn (drawn_calendars.py), and what is kept meanwhile (keeper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EXPIRATION_MS = 12_000
"""A transactional id is kept for so long after its last use, the name of an atomic batch twice as long."""
RETAINED_MS = 60_000
"""An offset is kept for so long: the least that can be set."""


def calendar_config(brokers: int) -> Mapping[str, object]:
    """Short times, and brokers that take the records of those whose calendar differs."""
    return {
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": min(3, brokers),
        "offsets.retention.minutes": RETAINED_MS // 60_000,
        "offsets.retention.check.interval.ms": 1_000,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": min(3, brokers),
        "transaction.state.log.min.isr": 1,
        "transactional.id.expiration.ms": EXPIRATION_MS,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
        "log.retention.check.interval.ms": 1_000,
        "log.message.timestamp.after.max.ms": (1 << 63) - 1,
        "log.message.timestamp.before.max.ms": (1 << 63) - 1,
        **({"log.retention.ms": -1} if brokers < 3 else {}),  # nobody to compare calendars with
    }


@dataclass(frozen=True, slots=True)
class CalendarSetting:
    """From `at_s` on, the node's calendar is off by so much; below 0: before its first start."""

    at_s: float
    node: int
    off_ms: int


@dataclass(frozen=True, slots=True)
class CalendarPlan:
    """At any time the calendars of fewer than half of the brokers are wrong. A cluster of one or two has nobody to
    compare with, so there records may be deleted early (`judges_records`)."""

    settings: tuple[CalendarSetting, ...]
    judges_records: bool = True
    stamps: bool = False
    """The leader stamps the records that are kept (LogAppendTime)."""
