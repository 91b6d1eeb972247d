"""I46 and I97: what the quorum commits about replicas that come and go (KIP-455), judged record by record.

Images skip records: a node may take what begins a reassignment and what completes it as one step. So what is committed
is replayed here, and each change of a partition is compared with the partition and the configuration right before it.
Not here: that the leader and the brokers obey (partition_invariants.py, world.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from metadata.codec import decode_record
from metadata.controller.context import effective_min_isr
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import PartitionChangeRecord, Record
from metadata.registrations import PartitionRegistration
from penstock.record.reader import read_columns
from tests.simulation.cluster.cordon_invariants import wrong_placement
from tests.simulation.cluster.durable_log import Batch, Committed, Violated
from tests.simulation.cluster.metadata_invariants import MetadataInvariants


class ReassignmentInvariants:
    """See the module."""

    def __init__(self, metadata: MetadataInvariants) -> None:
        self._metadata = metadata
        self._image = EMPTY_IMAGE
        self._taken = 0
        """So many batches of the committed metadata."""

    def after_step(self, committed: Committed) -> None:
        """Takes what is committed since the last time."""
        while self._taken < len(committed.batches):
            batch = committed.batches[self._taken]
            self._taken += 1
            self._take(batch)

    def _take(self, batch: Batch) -> None:
        for value in read_columns(batch.raw).values:
            if value is not None:
                record = decode_record(bytes(value))
                self._judge(record)
                delta = MetadataDelta(self._image)
                delta.replay(record)
                self._image = delta.apply(batch.next_offset - 1, batch.epoch)

    def _judge(self, record: Record) -> None:
        if misplaced := wrong_placement(self._image, record):
            raise Violated(misplaced)
        if isinstance(record, PartitionChangeRecord) and record.replicas is not None:
            topic = self._image.topics_by_id.get(record.topic_id)
            before = topic.partitions.get(record.partition) if topic is not None else None
            if before is not None:
                after = before.merge(record)
                least = Least(self._min_isr(as_it_was(before)), self._min_isr(before), self._min_isr(after))
                wrong = wrong_in(before, after, least)
                if wrong:
                    name = self._image.topic_name(record.topic_id)
                    raise Violated(f"I46: {name}-{record.partition}: {wrong}: {before} becomes {after}")

    def _min_isr(self, partition: PartitionRegistration) -> int:
        """With so many in sync it commits."""
        name = self._image.topics_by_id[partition.topic_id].name
        return effective_min_isr(partition, self._image.topic_config(name), self._metadata.defaults(self._image))


class Least(NamedTuple):
    """With so many in sync the partition commits records: without its reassignment, before a change, and after it."""

    original: int
    before: int
    after: int


def as_it_was(partition: PartitionRegistration) -> PartitionRegistration:
    """Without its reassignment."""
    return replace(
        partition,
        replicas=partition.original_replicas,
        directories=(),
        adding_replicas=(),
        removing_replicas=(),
        replicas_before=(),
    )


def wrong_in(before: PartitionRegistration, after: PartitionRegistration, least: Least) -> str:
    """The fault in a change of the replicas; "" if there is none."""
    gone = set(before.replicas).difference(after.replicas)
    ends = before.is_reassigning and not after.is_reassigning
    is_complete = ends and set(after.replicas) == set(before.target_replicas)
    if after.is_reassigning and len(after.target_replicas) < least.original:
        return f"it shall have {len(after.target_replicas)} replicas, min.insync.replicas is {least.original}"
    if gone and after.leader_epoch == before.leader_epoch:
        return f"{sorted(gone)} go, and no leader epoch begins"
    if ends and not is_complete and set(after.replicas) != set(before.original_replicas):
        return "a reassignment ends neither with its target nor with what was before it"
    if not is_complete and not gone <= set(before.adding_replicas):
        return f"{sorted(gone)} go, and no reassignment that removes them is complete"
    if is_complete and not set(before.adding_replicas) <= set(before.isr):
        return f"a reassignment is complete, and not all of {before.adding_replicas} are in sync"
    if is_complete and len(after.isr) < least.before:
        return f"a reassignment is complete with {len(after.isr)} in sync, min.insync.replicas is {least.before}"
    if gone.intersection((*before.isr, *before.elr)) and len(after.isr) < max(least.after, 1):
        return f"{sorted(gone)} go, and {len(after.isr)} are left in sync, min.insync.replicas is {least.after}"
    if after.is_reassigning and after.original_replicas != before.original_replicas:
        return f"a reassignment forgets that {before.original_replicas} were before it, in this order"
    return ""
