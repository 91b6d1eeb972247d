"""The rule of racks: a partition never has its replicas in fewer racks than before.

Read by the planner and by the schedule of the controller, so that the two cannot disagree. A broker without a rack is a
rack of its own, as where replicas are placed (metadata/controller/topics/placement.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


def rack_name(broker_id: int, rack: str) -> str:
    """Names a broker's rack; no broker without one shares the name of another."""
    return f"rack {rack}" if rack else f"broker {broker_id}"


def rack_count(replicas: Iterable[int], rack_of: Callable[[int], str]) -> int:
    """The number of racks that the replicas are in."""
    return len({rack_of(replica) for replica in replicas})


def keeps_racks(replicas: Iterable[int], source: int, target: int, rack_of: Callable[[int], str]) -> bool:
    """True if the partition is in as many racks as before when the replica of `source` goes to `target`."""
    before = set(map(rack_of, replicas))
    others = {rack_of(replica) for replica in replicas if replica != source}
    return rack_of(target) not in others or len(others) == len(before)
