"""Who leaves an ISR and who comes back, by the schedule and by fetches."""

from __future__ import annotations

from pathlib import Path

from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from tests.support.partitions import batch, flush, make_partition, state
from tests.support.replicas import LAG_TIME_MS_MAX, Proposals

EPOCHS = {1: 101, 2: 102}
WALL_MS = 1_700_000_000_000
LATE_MS = LAG_TIME_MS_MAX + 1


def leading(path: Path) -> tuple[Partition, IsrUpkeep, Proposals]:
    """One record is committed, and another is not: `min.insync.replicas` is 2, and broker 2 is silent."""
    proposals = Proposals()
    partition = make_partition(path, min_insync_replicas=2)
    partition.become_leader(state(replicas=(1, 2), isr=(1, 2)), now_ms=0)
    upkeep = IsrUpkeep(proposals, lambda: EPOCHS[1], LAG_TIME_MS_MAX)
    upkeep.brokers_changed(EPOCHS, frozenset(EPOCHS), [partition], {})
    partition.append_as_leader(batch(b"a"), -1, 0, WALL_MS)
    fetched(partition, 1)
    partition.append_as_leader(batch(b"b"), -1, 0, WALL_MS)
    flush(partition)
    assert partition.high_watermark == 1 and not proposals.asked
    return partition, upkeep, proposals


def fetched(partition: Partition, offset: int) -> None:
    note_follower_fetch(partition, 2, EPOCHS[2], ReplicaPosition(offset, 5, 0), 5, now_ms=1)


def test_a_silent_follower_leaves_the_isr_once_and_stays_out(tmp_path: Path) -> None:
    """It has what is committed, because below `min.insync.replicas` no more is; so it would join at once."""
    partition, upkeep, proposals = leading(tmp_path)
    upkeep.check([partition], LATE_MS)
    assert proposals.asked == [{1}]
    partition.isr_committed((1,), 5, 1, ())
    for later in range(3):
        upkeep.check([partition], LATE_MS + later)
    assert proposals.asked == [{1}]
    fetched(partition, 1)
    upkeep.maybe_expand(partition, 2)
    assert proposals.asked == [{1}, {1, 2}], "it fetches again"


def test_a_follower_that_has_everything_joins_without_another_fetch(tmp_path: Path) -> None:
    partition, upkeep, proposals = leading(tmp_path)
    upkeep.check([partition], LATE_MS)
    fetched(partition, 2)
    partition.isr_committed((1,), 5, 1, ())
    upkeep.check([partition], LATE_MS)
    assert proposals.asked == [{1}, {1, 2}]
