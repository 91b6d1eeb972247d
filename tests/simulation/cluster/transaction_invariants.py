"""I68 to I70 of real brokers' partitions: last stable offsets, aborted transactions, decisions, and the end of all.

Each replica is compared with what all committed batches tell (stable_offsets.py): a marker that was ever below a high
watermark has decided for good, also where a replica's own one is behind it again. A replica may wait for a transaction
longer than it must: how long is I70. Not here: what clients are told (transactions/oracle.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.replication.partition import Partition
from metadata.registrations import PartitionKey
from tests.simulation.cluster.durable_log import Committed, Violated
from tests.simulation.cluster.stable_offsets import STATE_TOPIC, Decisions

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine


class TransactionInvariants:
    """See the module."""

    def __init__(self) -> None:
        self.decisions = Decisions()
        self._stables: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        """The high watermark and the last stable offset of the leader of each leader epoch."""

    def check_decisions(self, histories: Iterable[Committed]) -> None:
        """I69, after a step."""
        if not self.decisions.has_news:
            return
        states = (each for each in histories if each.name.startswith(STATE_TOPIC))
        self.decisions.check(is_whole=all(each.numbered_end == each.end for each in states))
        if self.decisions.wrong:
            raise Violated(self.decisions.wrong[0])

    def check_stable(self, where: str, partition: Partition, key: PartitionKey, history: Committed) -> None:
        """I68: no replica's last stable offset is behind the first record of a transaction that is open in what is
        committed; that of a leader does not fall in its epoch."""
        log, leading = partition.log, partition.leading
        if not history.is_numbered or log.producers.is_stale or partition.high_watermark > history.numbered_end:
            return
        stable = partition.last_stable_offset
        most = history.transactions.stable_end(history.numbered_end, log.log_start_offset)
        if stable > most:
            raise Violated(f"I68: {where}: stable up to {stable}, and a transaction is open from {most} on")
        if leading is None:
            return
        epoch, now = (key, leading.leader_epoch), (partition.high_watermark, stable)
        before = self._stables.get(epoch, (-1, -1))
        if stable < before[1] and now[0] >= before[0]:  # else it is I7
            raise Violated(f"I68: {where}: the last stable offset falls from {before[1]} to {stable} in {epoch[1]}")
        self._stables[epoch] = now


def check_aborted(where: str, partition: Partition, history: Committed) -> None:
    """I68: a replica knows just the aborted transactions that are committed. The cleaner forgets some with their
    records."""
    log = partition.log
    end = min(partition.high_watermark, history.numbered_end)
    if not history.is_numbered or log.producers.is_stale or log.config.is_compacted:
        return
    begin = max(log.segments[0].base_offset, log.log_start_offset)
    committed = [each for each in history.transactions.aborted if begin <= each.last_offset < end]
    known = [each for each in log.transactions.aborted(begin, end) if each.last_offset < end]
    missing = {each for each in committed if each.first_offset >= begin}.difference(known)
    markers = {(each.producer_id, each.last_offset) for each in committed}
    foreign = [each for each in known if (each.producer_id, each.last_offset) not in markers]
    if missing or foreign:
        raise Violated(f"I68: {where}: it does not know {sorted(missing)} as aborted, and takes {foreign} for aborted")


def undecided(decisions: Decisions, brokers: Iterable[Machine]) -> Iterator[str]:
    """I70: where a transaction is open, or not every replica knows its end."""
    for name in decisions.open():
        yield f"the transaction of {name!r} is not whole"
    for machine in brokers:
        broker = machine.node.broker if machine.node is not None else None
        if broker is None:
            yield f"{machine.name} is down"
            continue
        for each in broker.replication.replicas.hosted.all():
            if each.offline is not None or each.log.producers.is_stale:
                continue
            stable, end = each.last_stable_offset, each.high_watermark
            if stable != end:
                yield f"{each.topic_partition} of {machine.name} is stable up to {stable} of {end}"
