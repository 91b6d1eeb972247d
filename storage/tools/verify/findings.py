"""The findings of `penstock log verify` and `recover` about files: frozen values, and the wordings of remedies.

A finding names the file, the byte and the offset, says what it means, and ends with the remedy. Its severity:

    damage     records are lost, unreadable or in doubt, or the node will not start
    warning    no record is at risk, but a start will tidy, cut or rebuild something
    note       nothing to do; the state is described

`verify_*.py` finds them, `command.py` prints them.
"""

from __future__ import annotations

from typing import Literal

from penstock.lazy_dataclass import dataclass
from penstock.types import METADATA_TOPIC, TopicPartition

Severity = Literal["damage", "warning", "note"]

FETCH_AGAIN = (
    "with other replicas: move the partition's directory away while the node is stopped, and the node fetches the "
    "replica from its leader (it does both by itself when it comes upon the damage)"
)
NEW_VOTER = (
    "of a cluster with other controllers: give this one an empty log dir and a new node id, for a voter that forgets "
    "what it acknowledged may elect a leader that misses it"
)
TRUNCATE = "with this one only: `penstock log recover --truncate-at-damage` keeps what comes before"
CUT = "nothing to do: the next start or `penstock log recover` cuts it; what was acked comes back from the leader"
REBUILD = "costs only time: rebuilt when it is used, or now by `penstock log recover --rebuild-indexes`"
TIDY = "nothing to do: the next start or `penstock log recover` tidies it"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing."""

    severity: Severity
    kind: str
    """Which of them, for scripts: a fixed word such as `rot`, `torn-tail`, `index`."""
    file: str
    what: str
    remedy: str = ""
    position: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class LogReport:
    """One log, after all its findings."""

    directory: str
    log_start_offset: int
    log_end_offset: int
    """The end of its good batches."""
    recovery_point: int | None
    """The recovery point; None if it is not known."""
    whole_from: int | None
    """No damage is at or above it; None where nothing good follows the last damage."""
    readable_behind_damage: int
    """Records, not deleted, in the good batches that follow the first damage."""
    segments: int
    batches: int
    records: int
    size_bytes: int


def remedy_for_damage(topic_partition: TopicPartition | None) -> str:
    """The remedy for damaged records of this log."""
    is_metadata = topic_partition is not None and topic_partition.topic == METADATA_TOPIC
    return f"{NEW_VOTER if is_metadata else FETCH_AGAIN}; {TRUNCATE}"
