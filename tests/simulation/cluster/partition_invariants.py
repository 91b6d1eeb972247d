"""I7, I12 to I21, I32, I47 and I48 of real brokers' partitions, after each step of one and on its machine's disk.

When a leader's high watermark rises, the records below it become the partition's committed history, and from then on
every member of the controller's ISR and ELR must have them durably, at every moment. That holds across epochs: a
record that a leader of an older epoch commits late was acknowledged by all from whom the next leader was elected. With
`flush.policy=os` nothing is promised of disks, the records of a compacted topic change, and unclean elections lose
some: of a topic that ever was so, only high watermarks and ISRs are checked, and of a compacted one I20.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from broker.node.node import Node
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.leader.leader_state import LeaderState, ProposedIsr
from broker.replication.partition import Partition
from metadata.registrations import PartitionKey, PartitionRegistration
from penstock import epochs
from penstock.types import NO_EPOCH, TopicPartition
from storage.log.log import Log
from tests.simulation.cluster.durable_log import Batch, Committed, DurableLog, Violated, parse
from tests.simulation.cluster.log_places import NamedPlaces, ReplicaPlace, check_place
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.metadata_invariants import MetadataInvariants
from tests.simulation.cluster.transaction_invariants import TransactionInvariants, check_aborted

RETENTION_MS = 3_600_000
"""With a shorter retention, replicas of a simulated cluster delete records by themselves."""


@dataclass(slots=True)
class Seen:
    """How one partition of one process looked after its last step."""

    key: PartitionKey
    high_watermark: int
    history: Committed
    replica: DurableLog
    leading: LeaderState | None = None
    isr: frozenset[int] | None = None
    proposed: ProposedIsr | None = None
    log_start: int = 0
    log: Log | None = None
    log_is_checked: bool = False


class PartitionInvariants:
    """See the module."""

    def __init__(self, machines: Sequence[Machine], metadata: MetadataInvariants) -> None:
        self._machines = {machine.config.node_id: machine for machine in machines}
        self.metadata = metadata
        self.transactions = TransactionInvariants()
        self._places = NamedPlaces()
        self._seen: dict[Partition, Seen] = {}
        self._histories: dict[PartitionKey, Committed] = {}
        self._replicas: dict[tuple[PartitionKey, int], DurableLog] = {}
        self._high_watermarks: dict[tuple[PartitionKey, int], int] = {}
        """The high watermark of the leader of each leader epoch."""
        self._excused: dict[tuple[PartitionKey, int], int] = {}
        self._away: set[int] = set()
        """Brokers whose disks come back as they were, whatever a registration that was under way said meanwhile."""
        """Replicas whose disk was lost, with their broker epoch: they need not hold anything until they have registered
        anew and left the ISR. One outside it may still join: its last fetch before the loss may be under way."""

    def seen(self, partition: Partition) -> Seen | None:
        return self._seen.get(partition)

    def replica(self, key: PartitionKey, broker_id: int) -> DurableLog | None:
        return self._replicas.get((key, broker_id))

    def is_kept(self, key: PartitionKey) -> bool:
        """True if records of the partition stay as they are."""
        history = self._histories.get(key)
        return history is not None and not history.is_void and self.metadata.partition(key) is not None

    def end(self, key: PartitionKey) -> int:
        """Up to where leaders have committed, as far as this was seen before the topic was deleted."""
        history = self._histories.get(key)
        return history.end if history is not None else 0

    def is_excused(self, broker_id: int) -> bool:
        return any(excused == broker_id for _, excused in self._excused)

    def later_epochs(self) -> int:
        """How often a producer has begun another epoch in a partition."""
        return sum(history.sequences.later_epochs for history in self._histories.values())

    # -- after a step --------------------------------------------------------------------------------------------------

    def after_step(self, machine: Machine, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            seen = self._seen.get(partition)
            if seen is None:
                seen = self._first_sight(machine, partition)
            if partition.log is not seen.log:
                has_moved = seen.log is not None and seen.log.log_dir != partition.log.log_dir
                if has_moved and self.metadata.partition(seen.key) is not None:  # else the topic was deleted
                    self._places.moved(machine, partition)
                seen.log, seen.log_is_checked = partition.log, False
                check_place(machine, partition)
            leading, led = partition.leading, seen.leading
            starts_elsewhere = partition.log.log_start_offset != seen.log_start
            if leading is not led:
                seen.leading, seen.isr = leading, None
            if starts_elsewhere:
                self._deleted(partition, seen)
            if leading is not None and (leading is not led or starts_elsewhere):
                self._check_deleted(machine, partition, seen, leading)
            if partition.high_watermark != seen.high_watermark or (leading is not None and seen.isr is None):
                self._moved(machine, partition, seen, leading or led)
            if leading is not None and (leading.isr is not seen.isr or leading.proposed is not seen.proposed):
                seen.isr, seen.proposed = leading.isr, leading.proposed
                self.check_maximal_isr(machine, partition, leading)
        self.transactions.check_decisions(self._histories.values())

    def _first_sight(self, machine: Machine, partition: Partition) -> Seen:
        key = PartitionKey(partition.topic_id, partition.topic_partition.partition)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = Committed(str(partition.topic_partition), self.transactions.decisions)
        replica = self._replicas.get((key, partition.broker_id))
        if replica is None or replica.directory != partition.log.directory:
            place = ReplicaPlace(machine, partition.topic_partition, partition.topic_id, partition.log.directory)
            replica = DurableLog(machine, partition.log.directory, place.directory)
            self._replicas[key, partition.broker_id] = replica
        seen = self._seen[partition] = Seen(key, -1, history, replica)
        return seen

    def _deleted(self, partition: Partition, seen: Seen) -> None:
        """The log start has moved: for a deletion on the leader, or for retention on any replica."""
        seen.log_start = partition.log.log_start_offset
        config = partition.log.config
        if partition.leading is not None or config.retention_bytes >= 0 or config.retention_ms < RETENTION_MS:
            seen.history.start = max(seen.history.start, min(seen.log_start, seen.history.end))

    def deleted(self, key: PartitionKey, before: int) -> None:
        """A client was told just now that all records below this offset are deleted (KIP-107)."""
        history = self._histories.get(key)
        if history is not None:
            history.deleted = max(history.deleted, before)

    def _check_deleted(self, machine: Machine, partition: Partition, seen: Seen, leading: LeaderState) -> None:
        """I80, of the leader that the controller knows: an older one may not have heard of the deletion."""
        known, begin = self.metadata.partition(seen.key), partition.log.log_start_offset
        if known is None or (known.leader_epoch, known.leader_id) != (leading.leader_epoch, partition.broker_id):
            return
        if begin < seen.history.deleted and self._keeps_numbers(partition):
            raise Violated(
                f"I80: {machine.name}, {partition.topic_partition}: leads epoch {leading.leader_epoch} with a log from"
                f" {begin}, and a client was told that all below {seen.history.deleted} is deleted"
            )

    def _moved(self, machine: Machine, partition: Partition, seen: Seen, leading: LeaderState | None) -> None:
        """I7: the high watermark of a leader does not fall in its epoch. What it passes is committed, also if it is no
        leader any more at the end of the step: its disk may have failed right after."""
        high_watermark = partition.high_watermark
        seen.high_watermark = high_watermark
        where = f"{machine.name}, {partition.topic_partition}"
        if leading is None:
            is_there = self.metadata.partition(seen.key) is not None  # else the topic was deleted
            if is_there and high_watermark > seen.history.end and partition.log.settings.flush_policy != "os":
                raise Violated(
                    f"I17: {where}: the high watermark of a follower is {high_watermark}, leaders committed up to"
                    f" {seen.history.end}"
                )
            return
        epoch = (seen.key, leading.leader_epoch)
        highest = self._high_watermarks.get(epoch, -1)
        if high_watermark < highest:
            raise Violated(f"I7: {where}: the high watermark falls from {highest} to {high_watermark} in {epoch[1]}")
        self._high_watermarks[epoch] = high_watermark
        if high_watermark > seen.history.end:
            self._commits(where, partition, seen)
        if partition.leading is not None:
            self.transactions.check_stable(where, partition, seen.key, seen.history)

    def _commits(self, where: str, partition: Partition, seen: Seen) -> None:
        """I13, I19 of the leader, then of the whole ISR, at the moment at which it is called committed."""
        history, high_watermark = seen.history, partition.high_watermark
        if self.metadata.partition(seen.key) is None:
            return  # the topic was deleted, and the files may be gone
        if not self.is_promised(partition):
            history.is_void, history.end = True, high_watermark
        if history.is_void:
            history.end = max(history.end, high_watermark)
            history.is_numbered = history.is_numbered and self._keeps_numbers(partition)
            if history.is_numbered:
                seen.replica.refresh()
                history.number(seen.replica, high_watermark)
            return
        seen.replica.refresh()
        reached = history.extend(seen.replica, high_watermark)
        if reached < high_watermark:
            raise Violated(
                f"I19: {where}: its leader commits up to {high_watermark}, and has {reached} and what follows not"
                f" durably: its log there is durable from {seen.replica.start} to {seen.replica.end}"
            )
        self.check_isr(seen.key)

    def is_promised(self, partition: Partition) -> bool:
        return not partition.log.config.is_compacted and self._keeps_numbers(partition)

    def _keeps_numbers(self, partition: Partition) -> bool:
        """No committed batch may be lost, though the cleaner may take records out of it."""
        return partition.log.settings.flush_policy != "os" and not self.metadata.may_lose(
            partition.topic_partition.topic
        )

    def check_maximal_isr(self, machine: Machine, partition: Partition, leading: LeaderState) -> None:
        """I12, in the leader epoch that the controller knows; I47, in its partition epoch; I48 always."""
        held = sorted(filter(leading.is_moving, leading.maximal_isr))
        if held:
            raise Violated(
                f"I48: {machine.name}, {partition.topic_partition}: a throttle may hold {held}, and the high watermark"
                f" waits for {sorted(leading.maximal_isr)}"
            )
        key = PartitionKey(partition.topic_id, partition.topic_partition.partition)
        known = self.metadata.partition(key)
        if known is None or (known.leader_epoch, known.leader_id) != (leading.leader_epoch, partition.broker_id):
            return
        if not leading.maximal_isr.issuperset(known.isr):
            raise Violated(
                f"I12: {machine.name}, {partition.topic_partition}: waits for {sorted(leading.maximal_isr)} in epoch"
                f" {leading.leader_epoch}, the controller's ISR is {known.isr}"
            )
        others = {*leading.followers, *leading.maximal_isr}.difference((partition.broker_id,))
        if leading.partition_epoch == known.partition_epoch and others != {*known.replicas} - {partition.broker_id}:
            raise Violated(
                f"I47: {machine.name}, {partition.topic_partition}: counts {sorted(others)} in partition epoch"
                f" {leading.partition_epoch}, the replicas are {known.replicas}"
            )

    # -- the ISR -------------------------------------------------------------------------------------------------------

    def changed(self, partition: PartitionRegistration, hosts: Iterable[tuple[Machine, HostedPartitions]]) -> None:
        """The controller has changed it: what holds of its ISR holds of the new one."""
        self._places.changed(partition)
        self.check_isr(partition.key)
        leader = self._machines.get(partition.leader_id)
        topic = self.metadata.newest.topic_name(partition.topic_id)
        for machine, partitions in hosts:
            if machine is leader and topic is not None:
                found = partitions.find(TopicPartition(topic, partition.partition))
                if found is not None and found.leading is not None and found.topic_id == partition.topic_id:
                    self.check_maximal_isr(machine, found, found.leading)

    def check_isr(self, key: PartitionKey) -> None:
        """I13, I14, I19, I21, I32: every member of the controller's ISR and ELR has the committed history on its
        disk."""
        history, known = self._histories.get(key), self.metadata.partition(key)
        if known is None or history is None or history.is_void or history.end <= history.start:
            return
        for member in (*known.isr, *known.elr):
            if self._is_excused(known, member):
                continue
            replica = self._replicas.get((key, member))
            if replica is not None:
                replica.refresh()
            missing = history.missing(replica) if replica is not None else history.start
            if missing is not None:
                role, number = f"a member of the ISR {known.isr}", "I13"
                if member == known.leader_id:
                    role, number = f"the leader, with ISR {known.isr},", "I14"
                elif member in known.elr:
                    role, number = f"a member of the ELR {known.elr}", "I32"
                there = f"{replica.start}..{replica.end}" if replica is not None else "nothing"
                raise Violated(
                    f"{number}: node-{member}, {history.name}, offset {missing}: {role} of epoch"
                    f" {known.leader_epoch} has {there} on its disk; committed are {history.start}..{history.end}"
                )

    def _is_excused(self, known: PartitionRegistration, member: int) -> bool:
        """In the ELR only until it registers anew: its registration says that it has nothing."""
        broker_epoch = self._excused.get((known.key, member))
        if broker_epoch is None or member in known.isr or member in self._away:
            return broker_epoch is not None
        broker = self.metadata.newest.brokers.get(member)
        return broker is not None and broker.broker_epoch == broker_epoch

    def excuse(self, broker_id: int, *, comes_back: bool = False) -> None:
        newest = self.metadata.newest
        if comes_back:
            self._away.add(broker_id)
        for topic in newest.topics_by_name.values():
            for partition in topic.partitions.values():
                if broker_id in partition.replicas:
                    self._excused[partition.key, broker_id] = newest.brokers[broker_id].broker_epoch

    def excuse_no_more(self, broker_id: int) -> None:
        self._away.discard(broker_id)
        self._excused = {pair: epoch for pair, epoch in self._excused.items() if pair[1] != broker_id}

    def has_excused(self) -> bool:
        """Until then, a fetch that was under way may still bring the member back into the ISR."""
        for (key, broker_id), broker_epoch in list(self._excused.items()):
            known, broker = self.metadata.partition(key), self.metadata.newest.brokers.get(broker_id)
            is_new = broker is None or broker.broker_epoch != broker_epoch
            if known is None or (is_new and broker_id not in (*known.isr, *known.elr)):
                del self._excused[key, broker_id]
        return bool(self._excused)

    def acked(self, name: str, keys: Sequence[PartitionKey], offset: int, values: Sequence[bytes]) -> None:
        """I14, I19, I21: what a client was told is committed, with these values, and on the disks of the ISR.

        `keys` are those of all topics of that name. An ack does not say to which of them it belongs.
        """
        wrong = "of no topic"
        for key in reversed(keys):
            wrong = self._wrong(key, range(offset, offset + len(values)), values)
            if not wrong:
                self.check_isr(key)
                return
        raise Violated(f"I14: {name}, offset {offset} was acked: {wrong}")

    def read(
        self, name: str, keys: Sequence[PartitionKey], offsets: Sequence[int], values: Sequence[bytes | None]
    ) -> None:
        """I16: what a reader is given is committed, with these values, so every other one is given the same.

        `keys` are those of the topics of that name that it may read, the newest last.
        """
        wrong = "of no topic"
        for key in reversed(keys):
            wrong = self._wrong(key, offsets, values)
            if not wrong:
                return
        if not (keys and self.metadata.partition(keys[-1]) is None):
            raise Violated(f"I16: {name}: a reader was given offsets {offsets[0]} to {offsets[-1]}: {wrong}")

    def _wrong(self, key: PartitionKey, offsets: Sequence[int], values: Sequence[bytes | None]) -> str:
        history, end = self._histories.get(key), self.end(key)
        if history is None or offsets[-1] >= end:
            return f"leaders have committed up to {end}"
        other = history.other_value(offsets, values) if not history.is_void else None
        return f"another record is committed at {other}" if other is not None else ""

    # -- now and then --------------------------------------------------------------------------------------------------

    def deep(self) -> None:
        """The ISRs' disks again, whatever happened to them."""
        for key in self._histories:
            self.check_isr(key)

    def deep_of(self, machine: Machine, partitions: Iterable[Partition], *, all_logs: bool) -> None:
        """I15, I17 and, of a log that was just opened or at the end, I18. The loop is not in the middle of anything."""
        for partition in partitions:
            seen = self._seen.get(partition)
            if seen is None or partition.offline is not None or self.metadata.partition(seen.key) is None:
                continue
            check_place(machine, partition)
            log, high_watermark = partition.log, partition.high_watermark
            where = f"{machine.name}, {partition.topic_partition}"
            if not log.log_start_offset <= high_watermark <= log.log_end_offset:
                raise Violated(
                    f"I17: {where}: the high watermark {high_watermark} is not in the log,"
                    f" {log.log_start_offset}..{log.log_end_offset}"
                )
            self.transactions.check_stable(where, partition, seen.key, seen.history)
            check_aborted(where, partition, seen.history)
            if seen.history.is_void or not self.is_promised(partition):
                continue
            seen.replica.refresh()
            different = seen.history.difference(seen.replica, high_watermark)
            if different is not None:
                raise Violated(
                    f"I15: {where}, offset {different}: below its high watermark {high_watermark} it has another record"
                    f" than was committed"
                )
            if all_logs or not seen.log_is_checked:
                seen.log_is_checked = True
                check_log(where, machine, partition)


def check_log(where: str, machine: Machine, partition: Partition) -> None:
    """I18: offsets without a gap, epochs that do not fall, and the epoch cache as the batches say."""
    log = partition.log
    found: list[Batch] = []
    for segment in log.segments:
        path = f"{log.directory}/{segment.base_offset:020d}.log"
        content = machine.disk.file_at(path).data
        found += parse(bytes(content), 0, found[-1].next_offset if found else None)[0]
    end = found[-1].next_offset if found else log.segments[0].base_offset
    if end < log.log_end_offset:
        raise Violated(f"I18: {where}, offset {end}: no whole batch follows, and the log ends at {log.log_end_offset}")
    epoch = NO_EPOCH
    for batch in found:
        if batch.epoch < epoch:
            raise Violated(f"I18: {where}, offset {batch.base_offset}: epoch {batch.epoch} follows epoch {epoch}")
        epoch = batch.epoch
        cached = epochs.epoch_for_offset(log.epoch_entries, batch.base_offset)
        if batch.base_offset >= log.log_start_offset and cached != epoch:
            raise Violated(f"I18: {where}, offset {batch.base_offset} has epoch {epoch}, the epoch cache says {cached}")


def hosted_by(machine: Machine) -> HostedPartitions:
    """The replicas of a machine's broker; none if it does not run one now."""
    return hosted_of(machine.node) if machine.node is not None else HostedPartitions(machine.config.node_id)


def hosted_of(node: Node) -> HostedPartitions:
    """The replicas of a node; none if it is no broker."""
    return node.broker.replication.replicas.hosted if node.broker is not None else HostedPartitions(node.config.node_id)
