"""The log dirs of brokers as a plan needs them, and what a plan says of them. Plain values.

Not here: where they come from (penstock/cli/moves/), and how a plan is made (dir_planner.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DirReplica:
    """A replica in a log dir. A replica that already moves to another log dir counts there, with its full size."""

    topic: str
    index: int
    size_bytes: int
    topic_id: str = ""  # a topic that is created again has another
    stays: bool = False  # counted where it is, and not moved: it moves already, or its partition is reassigned


@dataclass(frozen=True, slots=True)
class BalancedDir:
    """One log dir. An offline log dir is left alone: nothing is known of its replicas."""

    path: str
    replicas: tuple[DirReplica, ...] = ()
    room_bytes: int | None = None  # what may come here; None: not known, and no limit. Negative: it is too full already
    online: bool = True
    cordoned: bool = False  # KIP-1066: nothing goes there, and what it has stays


@dataclass(frozen=True, slots=True)
class BrokerDirs:
    """The log dirs of one broker. Invariant: no path and no replica is there twice."""

    broker_id: int
    dirs: tuple[BalancedDir, ...]


@dataclass(frozen=True, slots=True)
class DirMove:
    """A replica that goes from one log dir of its broker to another."""

    broker_id: int
    topic: str
    index: int
    source: str
    target: str
    size_bytes: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class DirLoad:
    """The load of one log dir."""

    broker_id: int
    path: str
    online: bool
    replicas: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DirPlan:
    """The moves, and the load of each log dir, by broker and path, before and after."""

    moves: tuple[DirMove, ...]
    before: tuple[DirLoad, ...]
    after: tuple[DirLoad, ...]

    @property
    def is_empty(self) -> bool:
        return not self.moves

    @property
    def bytes_to_copy(self) -> int:
        return sum(move.size_bytes for move in self.moves)


def dir_loads(brokers: Iterable[BrokerDirs], moves: Iterable[DirMove] = ()) -> tuple[DirLoad, ...]:
    """The load of each log dir once these moves are made."""
    replicas: dict[tuple[int, str], int] = {}
    sizes: dict[tuple[int, str], int] = {}
    online: dict[tuple[int, str], bool] = {}
    for broker in brokers:
        for one in broker.dirs:
            key = broker.broker_id, one.path
            replicas[key], sizes[key] = len(one.replicas), sum(replica.size_bytes for replica in one.replicas)
            online[key] = one.online
    for move in moves:
        for path, change in ((move.source, -1), (move.target, 1)):
            replicas[move.broker_id, path] += change
            sizes[move.broker_id, path] += change * move.size_bytes
    return tuple(DirLoad(*key, online[key], replicas[key], sizes[key]) for key in sorted(online))
