"""A fault that kills a coordinator when its followers have only the beginning of a decision over several writers.

What a coordinator decides at once may take several batches. A failover between them leaves a beginning of the decision,
and such a moment lasts a millisecond. So this fault looks at the coordinators of transactions every half millisecond
until one has decided over the writers of an atomic batch, and its log is committed up to somewhere within the last
append; and kills that node.

With another amount, markers of a coordinator are late by as long as the fault lasts, and meanwhile another broker
becomes the coordinator and has sent its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.coordination.led_shard import LedShard
from broker.transactions.transaction_shard import TransactionShard
from tests.simulation.cluster.moments import LOOK_SECONDS, WAIT_SECONDS

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.plan import Fault
    from tests.simulation.cluster.world import World


HALF, MARKERS = 0.25, 0.75
"""Amounts of the fault: a decision is half there; markers are late."""
MARKERS_CALL = "WriteTxnMarkers"


def strike_half_turn(world: World, fault: Fault) -> None:
    """Waits for such a node, and kills it; it is started when the fault is over."""
    if fault.amount >= 0.5:
        _strike_markers(world, fault)
        return
    appended: dict[LedShard[TransactionShard], tuple[int, int]] = {}
    """By shard: where its last append began, and where it ended."""
    until_s = world.scheduler.now_s + WAIT_SECONDS

    def is_half(shard: LedShard[TransactionShard]) -> bool:
        end, high_watermark = shard.partition.log.log_end_offset, shard.partition.high_watermark
        began, ended = appended.get(shard, (end, end))
        if end > ended:
            began = ended
        appended[shard] = began, end
        return began < high_watermark < end and _has_decided(shard)

    def any_half(machine: Machine) -> bool:
        found = [is_half(shard) for shard in _shards(machine)]
        return any(found)

    def look() -> None:
        if world.is_healing:
            return
        struck = next((machine for machine in world.brokers if any_half(machine)), None)
        if struck is not None:
            world.say(f"{struck.name}: killed in the middle of a decision")
            struck.kill()
            world.at(world.scheduler.now_s + fault.seconds, lambda: None if world.is_healing else struck.start())
        elif world.scheduler.now_s < until_s:
            world.at(world.scheduler.now_s + LOOK_SECONDS / 2, look)

    look()


def _strike_markers(world: World, fault: Fault) -> None:
    """The next markers of each coordinator come late; whose leave first, it is cut off from the controllers for half of
    that time."""
    ways = {machine.name: (machine.name, MARKERS_CALL, False) for machine in world.brokers}
    late, until_s = world.network.late_next, world.scheduler.now_s + WAIT_SECONDS
    late.update(dict.fromkeys(ways.values(), fault.seconds))

    def look() -> None:
        if world.is_healing:
            return
        struck = next((machine for machine in world.brokers if ways[machine.name] not in late), None)
        if struck is not None or world.scheduler.now_s >= until_s:
            for way in ways.values():
                late.pop(way, None)
        else:
            world.at(world.scheduler.now_s + LOOK_SECONDS, look)
        if struck is not None:
            world.say(f"{struck.name}: its markers come late, and another coordinator is elected")
            voters = [each.name for each in world.machines if each.config.is_controller and each is not struck]
            end = world.cut([way for name in voters for way in ((struck.name, name), (name, struck.name))])
            world.at(world.scheduler.now_s + fault.seconds / 2, lambda: None if world.is_healing else end())

    look()


def _shards(machine: Machine) -> Iterator[LedShard[TransactionShard]]:
    broker = machine.node.broker if machine.is_up and machine.node is not None else None
    if broker is not None:
        yield from (shard for shard in broker.coordinators.transactions.coordinator.shards if shard.log.is_led)


def _has_decided(shard: LedShard[TransactionShard]) -> bool:
    """Over several transactions, none of which has ended yet."""
    return shard.core.statistics().prepared > 1
