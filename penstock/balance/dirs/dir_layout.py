"""The replicas of one broker while they are spread over its log dirs: where each is, and what each log dir has.

A replica counts for its bytes, and for COUNTED_MIN at least: it has files and indexes, even if it has no record. The
log dirs are even when each has what the mean is, within TOLERANCE_PERCENT of that; where all replicas count alike, when
their numbers differ by one at most. Room is taken by what comes, and not given back by what goes: a broker deletes that
later (file.delete.delay.ms).
"""

from __future__ import annotations

from collections import Counter

from penstock.balance.dirs.broker_dirs import BrokerDirs, DirMove

COUNTED_MIN = 1 << 20
TOLERANCE_PERCENT = 10
"""Share of the mean by which log dirs may differ from it. Closer is not worth a copy: sizes change while it goes on."""


class DirLayout:
    """Log dirs are known by their place in `paths`, replicas that may move by their place in `weights`."""

    def __init__(self, broker: BrokerDirs) -> None:
        dirs = sorted((one for one in broker.dirs if one.online and not one.cordoned), key=lambda one: one.path)
        self.broker_id = broker.broker_id
        self.paths = [one.path for one in dirs]
        self.room = [one.room_bytes for one in dirs]
        """Bytes that may still come; None: no limit is known."""
        found = [(replica, at) for at, one in enumerate(dirs) for replica in one.replicas]
        found.sort(key=lambda each: (each[0].topic, each[0].index))
        weights = [max(replica.size_bytes, COUNTED_MIN) for replica, _ in found]
        self.loads = [0] * len(dirs)
        """The weight of all replicas of each log dir."""
        for (_, at), weight in zip(found, weights, strict=True):
            self.loads[at] += weight
        self.low, self.high = _band(weights, len(dirs))
        """The dirs are even when every load is within, both included."""
        movable = [number for number, (replica, _) in enumerate(found) if not replica.stays]
        self._replicas = [found[number][0] for number in movable]
        self.weights = [weights[number] for number in movable]
        self.homes = [found[number][1] for number in movable]
        """The log dir of each replica at first; the room that it has there is not asked for again."""
        self.at = list(self.homes)
        """The log dir of each replica now."""

    @property
    def mean(self) -> float:
        return sum(self.loads) / len(self.loads)

    @property
    def is_even(self) -> bool:
        return all(self.low <= load <= self.high for load in self.loads)

    @property
    def squares(self) -> int:
        """The smaller, the more even."""
        return sum(load * load for load in self.loads)

    @property
    def moved(self) -> list[int]:
        """The replicas that are not where they were at first."""
        return [replica for replica, home in enumerate(self.homes) if self.at[replica] != home]

    def fits(self, replica: int, target: int) -> bool:
        """True if there is room for it; there is at home."""
        room = self.room[target]
        return room is None or target == self.homes[replica] or self.weights[replica] <= room

    def move(self, replica: int, target: int) -> None:
        source, weight = self.at[replica], self.weights[replica]
        self.loads[source] -= weight
        self.loads[target] += weight
        self._take_room(replica, source, -weight)
        self._take_room(replica, target, weight)
        self.at[replica] = target

    def moves_from(self, homes: list[int]) -> list[DirMove]:
        """The moves, to each log dir in turn, so that all disks have work; the largest first, so that most is done if
        somebody stops in the middle."""
        changed = [replica for replica, home in enumerate(homes) if self.at[replica] != home]
        changed.sort(key=lambda replica: -self.weights[replica])
        turns = Counter[int]()
        order: list[tuple[int, int]] = []
        for replica in changed:
            target = self.at[replica]
            order.append((turns[target], replica))
            turns[target] += 1
        order.sort(key=lambda each: each[0])
        return [self._move_of(replica, homes[replica]) for _, replica in order]

    def _move_of(self, replica: int, home: int) -> DirMove:
        it = self._replicas[replica]
        source, target = self.paths[home], self.paths[self.at[replica]]
        return DirMove(self.broker_id, it.topic, it.index, source, target, it.size_bytes, it.topic_id)

    def _take_room(self, replica: int, log_dir: int, weight: int) -> None:
        room = self.room[log_dir]
        if room is not None and log_dir != self.homes[replica]:
            self.room[log_dir] = room - weight


def _band(weights: list[int], dirs: int) -> tuple[int, int]:
    """The least and the most that a log dir has where they are even."""
    if not weights or not dirs:
        return 0, 0
    if min(weights) == max(weights):
        fewer, rest = divmod(len(weights), dirs)
        return fewer * weights[0], (fewer + (rest > 0)) * weights[0]
    total, whole = sum(weights), 100 * dirs
    return -(-total * (100 - TOLERANCE_PERCENT) // whole), total * (100 + TOLERANCE_PERCENT) // whole
