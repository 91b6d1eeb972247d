"""I39: what a leader and the members of its ISR know of idempotent producers is what was committed, batch for batch.

A broker that forgets a producer, or a batch of it, is not noticed by that alone: the producer must send just this batch
again, and then counts it as a possible duplicate. So what each broker knows is compared with what the committed batches
tell (sequences.py). It may know more of the end, which is not committed yet, and less of batches that are deleted: a
replica that begins behind them never had them. A producer that was silent for long enough may be forgotten.

Here it is counted as well what brokers did about producers. Not here: I38 (client_invariants.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields

from broker.node.node import Node
from broker.replication.partition import Partition
from metadata.registrations import PartitionKey
from storage.append.producer_ids import ProducerIdCounts
from storage.append.producer_state import ProducerEntry
from storage.log.log_span import NO_LIMIT
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.metadata_invariants import MetadataInvariants
from tests.simulation.cluster.partition_invariants import PartitionInvariants, Seen
from tests.simulation.cluster.sequences import WINDOW, Appended

SHORT_EXPIRATION_MS = 3_600_000
"""With a longer one nobody is forgotten while a story lasts."""
MARGIN_SECONDS = 1.0
"""Clocks differ, and what producers do is looked at now and then."""


@dataclass(slots=True)
class _Silence:
    """The silence of one producer in one replica: its last act, since when it is silent, and in which epoch it was so
    for long enough to be forgotten. A replica that stood still heard nothing meanwhile, whatever the others heard."""

    newest: tuple[int, int]
    since_s: float
    epoch: int = -1


class ProducerInvariants:
    """See the module."""

    def __init__(self, partitions: PartitionInvariants, metadata: MetadataInvariants, expiration_ms: int) -> None:
        self._partitions, self._metadata = partitions, metadata
        self._expiration_s = expiration_ms / 1000 - MARGIN_SECONDS if expiration_ms < SHORT_EXPIRATION_MS else None
        self._unseen: dict[tuple[PartitionKey, int], int] = {}
        """The end of a replica's log when it was looked at again after a time in which it may have forgotten all of its
        producers: of what was committed only later, nobody has noted the silence."""
        self._silences: dict[tuple[PartitionKey, int, int], _Silence] = {}
        self._looked: dict[tuple[PartitionKey, int], float] = {}
        """When each replica was looked at, or was first there: whatever is new in it has come since."""
        self._counts: list[ProducerIdCounts] = []
        self._evicting: dict[int, ProducerIdCounts] = {}
        """The counts of each broker's newest process."""
        self.dated: frozenset[str] = frozenset()
        """Topics whose records are old when they are sent."""
        self._opened: set[Partition] = set()
        self._from_snapshots = 0

    def begun(self, node: Node) -> None:
        """A process has opened its logs."""
        self._evicting[node.config.node_id] = node.log_manager.producer_ids.counts
        self._counts.append(node.log_manager.producer_ids.counts)

    def deep_of(self, machine: Machine, partitions: Iterable[Partition], now_s: float) -> None:
        """The loop is not in the middle of anything."""
        for partition in partitions:
            if partition not in self._opened:
                self._opened.add(partition)
                self._from_snapshots += machine.lives > 1 and bool(partition.log.producers.snapshots.offsets)
            seen = self._partitions.seen(partition)
            if seen is None:
                continue
            self._looked.setdefault((seen.key, partition.broker_id), now_s)
            if partition.offline is not None or partition.log.producers.is_stale:
                continue
            known = self._metadata.partition(seen.key)
            if known is None or not seen.history.is_numbered or partition.broker_id not in known.isr:
                continue
            if not self._partitions.is_excused(partition.broker_id):
                self._check(machine, partition, seen, now_s)

    def _check(self, machine: Machine, partition: Partition, seen: Seen, now_s: float) -> None:
        log, history = partition.log, seen.history
        producers, end, first = log.producers.known, history.numbered_end, log.segments[0].base_offset
        replica = seen.key, partition.broker_id
        before_s = self._looked[replica]
        self._looked[replica] = now_s
        if self._expiration_s is not None and now_s - before_s >= self._expiration_s:
            self._unseen[replica] = log.log_end_offset
        for producer_id, numbered in history.sequences.appended.items():
            entry = producers.get(producer_id)
            key = seen.key, partition.broker_id, producer_id
            if self._may_be_forgotten(key, entry, numbered, log.log_end_offset, before_s, now_s):
                continue
            from_offset = self._remembered_from(partition, entry, first)
            wrong = difference(entry, numbered, end, from_offset, is_cleaned="compact" in log.config.cleanup_policy)
            if wrong:
                where = f"{machine.name}, {partition.topic_partition}"
                raise Violated(f"I39: {where}: of producer {producer_id}, up to offset {end}: {wrong}")
        for producer_id in producers:
            entry = producers.get(producer_id)
            if producer_id in history.sequences.appended or entry is None:
                continue
            key = seen.key, partition.broker_id, producer_id  # its silence begins before its first batch is committed
            self._may_be_forgotten(key, entry, Appended(entry.epoch, ()), log.log_end_offset, before_s, now_s)
            known = [batch.base_offset for batch in entry.batches]
            if known and known[0] < end:
                where = f"{machine.name}, {partition.topic_partition}"
                raise Violated(f"I39: {where}: producer {producer_id} has committed nothing, and is known with {entry}")

    def _remembered_from(self, partition: Partition, entry: ProducerEntry | None, first_offset: int) -> int:
        """Batches below it may be forgotten: they are deleted, or the producer made room, and has written again since
        if it is known."""
        if self._made_room(partition):
            return max(first_offset, entry.batches[0].base_offset if entry is not None and entry.batches else NO_LIMIT)
        return first_offset

    def _made_room(self, partition: Partition) -> bool:
        """True if a producer of old records may have made room for another one at the node's bound: a replica that has
        read its batches takes the times of their records for the times when it wrote (docs/delivery.md)."""
        is_dated = partition.topic_partition.topic in self.dated
        return is_dated and self._evicting[partition.broker_id].evicted > 0

    def _may_be_forgotten(
        self,
        key: tuple[PartitionKey, int, int],
        entry: ProducerEntry | None,
        numbered: Appended,
        end: int,
        before_s: float,
        now_s: float,
    ) -> bool:
        """Batches that are not committed count, too: a leader may forget them before they are."""
        if self._expiration_s is None:
            return False
        heard = [batch.offset for batch in numbered.batches if batch.offset < end]
        if entry is None and heard and heard[-1] < self._unseen.get(key[:2], 0):
            return True
        newest = numbered.epoch, heard[-1] if heard else -1
        if entry is not None:
            newest = max(newest, (entry.epoch, entry.batches[-1].base_offset if entry.batches else -1))
        silence = self._silences.setdefault(key, _Silence(newest, before_s))
        if now_s - silence.since_s >= self._expiration_s:  # perhaps until now: nobody looks at a replica out of the ISR
            silence.epoch = silence.newest[0]
        if (
            now_s - before_s >= self._expiration_s
        ):  # nobody looked for so long: also what came in between, and stood still
            silence.epoch = newest[0]
        if newest > silence.newest:
            silence.newest, silence.since_s = newest, before_s
        return silence.epoch >= numbered.epoch

    def counted(self) -> Counter[str]:
        """The brokers' actions on producers, by name."""
        found: Counter[str] = Counter()
        for counts in self._counts:
            found.update({field.name: getattr(counts, field.name) for field in fields(counts)})
        found["from_snapshots"] = self._from_snapshots
        found["later_epochs"] = self._partitions.later_epochs()
        return found


def difference(
    entry: ProducerEntry | None, numbered: Appended, end: int, first_offset: int, *, is_cleaned: bool = False
) -> str:
    """The fault in a broker's knowledge of a producer; "" if there is none.

    `end`: what is committed. `first_offset`: where the files begin. From a log that is cleaned a follower may have got
    the newest batch of a producer alone, and of those before only some.
    """
    wanted = numbered.batches
    if entry is None and not wanted:
        return ""  # it began with a marker, and that may be deleted
    if entry is None:
        return f"nothing is known, {numbered} is committed" if wanted[-1].offset >= first_offset else ""
    known = [batch[:3] for batch in entry.batches if batch.base_offset < end]
    if entry.epoch > numbered.epoch and not known:
        return ""
    if is_cleaned and entry.epoch == numbered.epoch and known and wanted and known[-1] == wanted[-1]:
        return (
            ""
            if all(b in wanted or b[1] < wanted[0].offset for b in known)
            else f"{entry} is known, {numbered} is told"
        )
    newer = len(entry.batches) - len(known)
    wanted = wanted[max(len(wanted) + newer - WINDOW, 0) :]
    lacks = wanted[: max(len(wanted) - len(known), 0)]
    is_end = list(wanted[len(lacks) :]) == known
    if entry.epoch == numbered.epoch and is_end and all(batch.offset < first_offset for batch in lacks):
        return ""
    return f"{entry} is known, {numbered} is committed"
