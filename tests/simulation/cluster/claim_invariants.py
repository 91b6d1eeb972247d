"""I26 to I29: what brokers and the controller claim of disks, of each other, and of what is decided, is so then.

A wrong claim is a mistake at once; that it loses something may need a second fault, which a seed may not have. The disk
is read as a power cut would leave it. Nothing is asked of topics whose records may go or change (see
partition_invariants.py). Also I18 of a log that was just cut. Not here: I26 of rolls and refused appends
(file_claims.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from broker.replication.leader.leader_state import FollowerProgress, LeaderState
from broker.replication.partition import Partition
from metadata.image import MetadataImage
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from penstock import epochs
from penstock.messages.nodes.partitions import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from penstock.types import NO_EPOCH
from storage.disk.file_names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT
from storage.log.log import Log
from tests.simulation.cluster.disk import SYNCS
from tests.simulation.cluster.durable_log import Violated, durable_entries, parts_of
from tests.simulation.cluster.file_claims import HeardLogs, check_rolled
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.partition_invariants import PartitionInvariants, hosted_by
from tests.support.losing_fs import Directory, File


@dataclass(slots=True)
class _Claims:
    """The claims of one partition of one process after its last step."""

    log: Log | None = None
    flushed: int = -1
    high_watermark: int = -1
    isr: int = 0
    min_isr: int = 0
    leading: LeaderState | None = None
    counted: dict[int, tuple[int, int, int]] = field(default_factory=dict)


class ClaimInvariants:
    """`broken` is told of what a node does in the middle of a step; other violations are raised."""

    def __init__(
        self, machines: Sequence[Machine], partitions: PartitionInvariants, broken: Callable[[str], None]
    ) -> None:
        self._machines, self._partitions, self._metadata = machines, partitions, partitions.metadata
        self._broken = broken
        self._claims: dict[Partition, _Claims] = {}
        self._operations: dict[str, int] = {}
        """So many did each machine's disk do until its last step."""
        self._recovery_points: dict[str, tuple[bytes, tuple[tuple[str, PartitionKey, int], ...]]] = {}
        """The content of each log dir's checkpoint when it was read last. The paths of log dirs name their machines."""
        self.caught_up: set[tuple[int, int]] = set()
        """Brokers and broker epochs of which a process has read its own registration."""
        self._asked_to_stop: set[tuple[int, int]] = set()
        """Brokers and broker epochs whose process was told to stop, or ends by itself."""
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self.brokers_at: dict[tuple[PartitionKey, int], dict[int, BrokerRegistration]] = {}
        """The brokers as they were when a partition got a partition epoch."""
        self._moved: set[PartitionKey] = set()
        """The partitions that were ever reassigned."""
        self._older: set[tuple[int, int]] = set()
        """Brokers and broker epochs of lives whose log dirs were since put back as they had been before."""

    # -- after a step --------------------------------------------------------------------------------------------------

    def after_step(
        self, machine: Machine, logs: HeardLogs, partitions: Iterable[Partition], image: MetadataImage
    ) -> None:
        disk = machine.disk
        if disk.operations != self._operations.get(machine.name):
            self._operations[machine.name] = disk.operations
            if disk.operations and disk.trace[-1].split(maxsplit=2)[1] in SYNCS:
                self._check_checkpoints(machine)
        for partition in partitions:
            claims, log = self._claims.get(partition), partition.log
            if claims is None or claims.log is not log:  # it is in another log dir from now on
                claims = self._claims[partition] = claims or _Claims()
                claims.log, claims.flushed = log, -1
                logs.meet(partition)
            elif logs.has_news:
                if log.directory in logs.cut:
                    self._check_cut(machine, partition)
                if log.directory in logs.rolled and self._is_promised(partition):
                    check_rolled(machine, partition)
            if log.recovery_point != claims.flushed:
                claims.flushed = log.recovery_point
                self._check_flushed(machine, partition, claims.flushed)
            leading = partition.leading
            if leading is not None:
                self._check_leader(machine, partition, leading, claims, image)
            elif len(partition.acks_all):
                raise Violated(f"I27: {_where(machine, partition)} does not lead, and a producer waits for its ack")
        logs.news_is_over()

    def _is_promised(self, partition: Partition) -> bool:
        seen = self._partitions.seen(partition)
        if partition.offline is not None or partition.log.closed or seen is None or seen.history.is_void:
            return False
        return self._metadata.partition(seen.key) is not None and self._partitions.is_promised(partition)

    def _check_flushed(self, machine: Machine, partition: Partition, flushed: int) -> None:
        """I26: below its flushed offset a log is on its disk. One that was emptied begins there."""
        seen = self._partitions.seen(partition)
        if seen is None or not self._is_promised(partition) or flushed <= partition.log.segments[0].base_offset:
            return
        seen.replica.refresh()
        if seen.replica.end < flushed:
            raise Violated(
                f"I26: {_where(machine, partition)} calls {flushed} flushed, its disk has {seen.replica.start} to"
                f" {seen.replica.end}"
            )

    def _check_cut(self, machine: Machine, partition: Partition) -> None:
        """I18: a log that was just cut knows no epoch that began behind the cut. A leader may have begun one since."""
        entries, end = partition.log.epoch_entries, partition.log.log_end_offset
        if partition.leading is None and entries and entries[-1].start_offset >= end > partition.log.log_start_offset:
            raise Violated(
                f"I18: {_where(machine, partition)} was cut at {end}, and its epoch cache ends with {entries[-1]}"
            )

    def _check_leader(
        self, machine: Machine, partition: Partition, leading: LeaderState, claims: _Claims, image: MetadataImage
    ) -> None:
        if leading is not claims.leading:
            claims.leading, claims.counted = leading, {}
            claims.high_watermark, claims.isr, claims.min_isr = partition.high_watermark, 0, 0
        isr_before, min_isr_before = claims.isr, claims.min_isr
        claims.isr, claims.min_isr = len(leading.isr), partition.min_insync_replicas
        if partition.high_watermark != claims.high_watermark:
            claims.high_watermark = partition.high_watermark
            if max(isr_before, claims.isr) < min(min_isr_before, claims.min_isr):
                raise Violated(
                    f"I27: {_where(machine, partition)} commits up to {partition.high_watermark} with {claims.isr} in"
                    f" sync, min.insync.replicas is {claims.min_isr}"
                )
        for follower in leading.followers.values():
            counted = follower.log_end_offset, follower.broker_epoch, follower.log_start_offset
            if claims.counted.get(follower.broker_id) != counted:
                claims.counted[follower.broker_id] = counted
                broker = image.brokers.get(follower.broker_id)
                if broker is not None and follower.broker_epoch not in (NO_EPOCH, broker.broker_epoch):
                    raise Violated(
                        f"I27: {_where(machine, partition)} counts a fetch of node-{follower.broker_id} under broker"
                        f" epoch {follower.broker_epoch}, it is registered with {broker.broker_epoch}"
                    )
                self._check_knows(machine, partition, leading, follower)
                if (follower.broker_id, follower.broker_epoch) not in self._older:
                    self._check_counted(machine, partition, leading, follower.broker_id, follower.log_end_offset)

    def _check_knows(
        self, machine: Machine, partition: Partition, leading: LeaderState, follower: FollowerProgress
    ) -> None:
        """I27: what a leader counts of a follower, the follower has said to the leader of this epoch."""
        there = self._machines[follower.broker_id]
        broker = there.node.broker if there.node is not None else None
        own = hosted_by(there).find(partition.topic_partition)
        if broker is None or own is None or own.topic_id != partition.topic_id:
            return
        is_same_life = follower.broker_epoch == broker.lifecycle.broker_epoch != NO_EPOCH
        if is_same_life and own.state.leader_epoch < leading.leader_epoch:
            raise Violated(
                f"I27: {_where(machine, partition)} in epoch {leading.leader_epoch} counts a fetch of {there.name},"
                f" which knows epoch {own.state.leader_epoch}"
            )
        if (
            is_same_life
            and own.state.leader_epoch == leading.leader_epoch
            and follower.log_start_offset > own.log.log_start_offset
            and self._is_promised(own)
        ):
            raise Violated(
                f"I27: {_where(machine, partition)} counts {there.name}'s log start as {follower.log_start_offset}, and"
                f" it is {own.log.log_start_offset}"
            )

    def _check_counted(
        self, machine: Machine, partition: Partition, leading: LeaderState, broker_id: int, end: int
    ) -> None:
        """I27: what a leader counts of a follower is on the follower's disk, and of the same epoch."""
        seen = self._partitions.seen(partition)
        if seen is None or end <= partition.log.log_start_offset or not self._is_promised(partition):
            return
        known = self._metadata.partition(seen.key)
        if known is None or known.leader_epoch != leading.leader_epoch or self._partitions.is_excused(broker_id):
            return
        replica = self._partitions.replica(seen.key, broker_id)
        if replica is not None:
            replica.refresh()
            if not replica.batches and replica.begins_at >= end:
                return  # all that it had was deleted
        found = replica.at(end - 1) if replica is not None else None
        own = epochs.epoch_for_offset(partition.log.epoch_entries, end - 1)
        if found is None or own not in (NO_EPOCH, found.epoch):
            there = f"{replica.start} to {replica.end}" if replica is not None else "nothing"
            raise Violated(
                f"I27: {_where(machine, partition)} in epoch {leading.leader_epoch} counts on node-{broker_id} up to"
                f" {end}, of epoch {own}; that disk has {there}, and there epoch {found and found.epoch}"
            )

    def put_back(self, broker_id: int, image: MetadataImage) -> None:
        """The log dirs of a fenced broker are older ones now. What its process had written into a connection may still
        arrive: a leader counts it, and nobody joins an ISR with that broker epoch any more."""
        if (broker := image.brokers.get(broker_id)) is not None:
            self._older.add((broker_id, broker.broker_epoch))

    # -- images --------------------------------------------------------------------------------------------------------

    def read_registration(self, machine: Machine, broker_epoch: int, image: MetadataImage) -> None:
        """After each step of a broker."""
        broker_id = machine.config.node_id
        if machine.asked_to_stop.is_set():
            self._asked_to_stop.add((broker_id, broker_epoch))
        if NO_EPOCH < broker_epoch <= image.offset:
            self.caught_up.add((broker_id, broker_epoch))

    def seen_image(self, name: str, image: MetadataImage, committed_end: int) -> None:
        """I28: an image has nothing that is not committed, and who leads and who is in service is as it should be."""
        if image.offset >= committed_end:
            raise Violated(
                f"I28: {name} acts on metadata offset {image.offset}; committed is what is below {committed_end}"
            )
        if image is not self._metadata.newest:
            return
        self._check_evicted(image)
        active = {b.broker_id for b in image.brokers.values() if not b.fenced and not b.in_controlled_shutdown}
        for broker in image.brokers.values():
            known = broker.broker_id, broker.broker_epoch
            if broker.in_controlled_shutdown and known not in self._asked_to_stop:
                raise Violated(f"I28: {known}, broker and epoch, counts as shutting down; nobody has asked it to stop")
            if not broker.fenced and known not in self.caught_up:
                raise Violated(
                    f"I28: broker {broker.broker_id} is in service at metadata offset {image.offset}, and has not read"
                    f" its registration, at {broker.broker_epoch}"
                )
        for topic in image.topics_by_id.values():
            for partition in topic.partitions.values():
                self._check_leader_of(image, f"{topic.name}-{partition.partition}", partition, active)

    def _check_evicted(self, image: MetadataImage) -> None:
        """I28: a process in service keeps its registration until it asks for another, or has to end."""
        before, self._brokers = self._brokers, image.brokers
        for machine in self._machines:
            old, new = (brokers.get(machine.config.node_id) for brokers in (before, image.brokers))
            broker = machine.node.broker if machine.node is not None else None
            if old is None or new is None or broker is None or old.fenced or machine.asked_to_stop.is_set():
                continue
            own = broker.lifecycle.incarnation_id
            if old.incarnation_id == own and new.incarnation_id != own:
                raise Violated(
                    f"I28: {machine.name} is in service, and is evicted by a registration of another process"
                )

    def _check_leader_of(
        self, image: MetadataImage, name: str, partition: PartitionRegistration, active: set[int]
    ) -> None:
        leader = image.brokers.get(partition.leader_id)
        if partition.leader_id >= 0 and (leader is None or leader.fenced):
            raise Violated(f"I28: {name} is led by broker {partition.leader_id}, which is fenced, at {image.offset}")
        online = {member for member in active & set(partition.isr) if image.replica_is_online(member, partition)}
        if partition.leader_id < 0 and not partition.log_lost and online:
            raise Violated(
                f"I28: {name} has no leader at {image.offset}, and {online} of {partition.isr} are in service"
            )

    # -- changes of ISRs -----------------------------------------------------------------------------------------------

    def changed(self, partition: PartitionRegistration, image: MetadataImage) -> None:
        self.brokers_at[partition.key, partition.partition_epoch] = dict(image.brokers)
        if partition.is_reassigning:
            self._moved.add(partition.key)

    def isr_asked(self, request: AlterPartitionRequest, own: Iterable[Partition]) -> None:
        """A broker that hosts these partitions is about to ask the controller for changes of ISRs."""
        for partition in own:
            for data in request.partitions:
                if (data.topic_id, data.partition) == (partition.topic_id, partition.topic_partition.partition):
                    self.wanted(partition, data)

    def isr_answered(self, request: AlterPartitionRequest, response: AlterPartitionResponse) -> None:
        asked = {(data.topic_id, data.partition): data for data in request.partitions}
        for result in response.partitions:
            data = asked.get((result.topic_id, result.partition))
            if result.error is None and data is not None:
                self.accepted(request.broker_id, data, result)

    def wanted(self, partition: Partition, data: AlterPartitionData) -> None:
        """I29: who joins has fetched under the broker epoch by which it joins."""
        leading = partition.leading
        for member in data.new_isr if leading is not None else ():
            follower = leading.followers.get(member.broker_id) if leading is not None else None
            joins = leading is not None and member.broker_id not in leading.isr
            if joins and follower is not None and follower.broker_epoch < member.broker_epoch:
                self._broken(
                    f"I29: {partition.topic_partition}: {member} shall join, who has fetched under broker epoch"
                    f" {follower.broker_epoch}"
                )

    def accepted(self, broker_id: int, data: AlterPartitionData, result: AlterPartitionResult) -> None:
        """I29: an ISR changes from the state that its leader knows, to brokers as they are registered, and for good."""
        key = PartitionKey(data.topic_id, data.partition)
        known = self._metadata.partition(key)
        if known is None:
            return
        what = f"I29: the ISR {[m.broker_id for m in data.new_isr]} that broker {broker_id} wants for {key}"
        asked, got = (data.leader_epoch, data.partition_epoch), (result.leader_epoch, result.partition_epoch)
        is_same = result.leader_id == broker_id and asked[0] == got[0] and got[1] - asked[1] in (0, 1)
        is_complete = got[0] - asked[0] in (0, 1) and got[1] - asked[1] in (1, 2)  # a reassignment, with another record
        if not is_same and not (is_complete and key in self._moved):
            self._broken(f"{what} is of leader epoch and partition epoch {asked}, and accepted at {got}")
        if got[1] > known.partition_epoch:
            self._broken(f"{what} is accepted as partition epoch {got[1]}, committed is {known.partition_epoch}")
        brokers = self.brokers_at.get((key, got[1]), {}) if got[1] == asked[1] + 1 else {}
        for member in data.new_isr:
            broker = brokers.get(member.broker_id)
            if broker is not None and broker.broker_epoch != member.broker_epoch:
                self._broken(f"{what} has {member}, whose broker epoch was {broker.broker_epoch} then")

    # -- now and then --------------------------------------------------------------------------------------------------

    def deep(self) -> None:
        """I26 of the files of log dirs."""
        for machine in self._machines:
            self._check_checkpoints(machine)
            for log_dir in machine.config.log_dirs:
                is_running = machine.node is not None and not machine.asked_to_stop.is_set()
                if is_running and not machine.faults.failing and CLEAN_SHUTDOWN in _durable_in(machine, log_dir):
                    raise Violated(f"I26: {machine.name} runs, and {log_dir} says that it has stopped in order")

    def _check_checkpoints(self, machine: Machine) -> None:
        for log_dir in () if self._partitions.is_excused(machine.config.node_id) else machine.config.log_dirs:
            file = _durable_in(machine, log_dir).get(RECOVERY_POINT_CHECKPOINT)
            if isinstance(file, File):
                self._check_checkpoint(machine, log_dir, file.durable)

    def _check_checkpoint(self, machine: Machine, log_dir: str, content: bytes) -> None:
        """Every recovery point is on the disk of its log."""
        read, rows = self._recovery_points.get(log_dir, (b"", ()))
        if read is not content:
            rows = _recovery_points(content)
            self._recovery_points[log_dir] = content, rows
        for topic, key, offset in rows:
            replica = self._partitions.replica(key, machine.config.node_id)
            if replica is None or not self._partitions.is_kept(key):
                continue
            replica.refresh()
            if not replica.directory.startswith(f"{log_dir}/"):
                continue
            if replica.batches and replica.end < offset:
                raise Violated(
                    f"I26: {machine.name}, {topic}-{key.partition}: the recovery point {offset} is above what is on the"
                    f" disk, {replica.start} to {replica.end}"
                )

    def forget(self, living: Iterable[Partition]) -> None:
        self._claims = {partition: self._claims[partition] for partition in living if partition in self._claims}


def _recovery_points(content: bytes) -> tuple[tuple[str, PartitionKey, int], ...]:
    """The rows of a recovery point checkpoint: topic, partition, offset."""
    rows = ([*row.split(), "-"][:4] for row in content.decode().splitlines()[2:-1])
    return tuple((topic, PartitionKey(topic_id, int(number)), int(offset)) for topic, number, offset, topic_id in rows)


def _where(machine: Machine, partition: Partition) -> str:
    return f"{machine.name}, {partition.topic_partition}"


def _durable_in(machine: Machine, log_dir: str) -> Mapping[str, File | Directory]:
    return durable_entries(machine.disk, parts_of(log_dir)) or {}
