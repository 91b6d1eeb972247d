"""I33 to I36, I38: clients' knowledge never gets older, they find leaders, nothing is appended late, ids are unique.

After each step of the clients' process, and now and then. Not here: what clients are told of records (the ledger).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from broker.network.request_channel import Request, ResponseSink
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.partition import Partition
from metadata.registrations import PartitionKey
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_cache import Leader
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest
from penstock.types import NO_LEADER, NO_OFFSET, TopicPartition
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.liveness_invariants import CALM_WEATHER_SECONDS, is_down
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.metadata_invariants import MetadataInvariants
from tests.simulation.cluster.neighbour_invariants import NeighbourInvariants
from tests.simulation.cluster.network import CLIENTS
from tests.simulation.cluster.partition_invariants import hosted_by
from tests.simulation.cluster.racks.reader_invariants import ReaderInvariants

FOUND_SECONDS = 10.0
"""A client that was silent towards a new leader has found it by then, whoever else hangs."""
Leaders = tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class _Knowledge:
    """The knowledge of one client after its last change."""

    changes: int = 0
    cluster_id: str = ""
    metadata_offset: int = NO_OFFSET
    leaders: dict[tuple[TopicPartition, str], Leader] = field(default_factory=dict)


class ClientInvariants:
    """See the module. `broken` is told of what is found in the middle of a step."""

    def __init__(
        self, machines: Sequence[Machine], metadata: MetadataInvariants, broken: Callable[[str], None]
    ) -> None:
        self._machines, self._metadata, self._broken = machines, metadata, broken
        self.neighbours = NeighbourInvariants(machines, metadata)
        self.readers = ReaderInvariants(machines, broken)
        self.known: dict[ClusterClient, _Knowledge] = {}
        self.well: dict[str, tuple[Leaders, float]] = {}
        """The leaders of each topic whose partitions all work, and since when they lead."""
        self._giver_of: dict[tuple[int, int], str] = {}
        """By producer id and epoch: which broker gave it."""
        self._owner_of: dict[int, str | None] = {}
        """By producer id: the transactional id that has it."""
        self._given_up: dict[str, list[tuple[Partition, int]]] = {}
        """By machine that handles what its client has given up: the partitions that are named, and their log ends."""

    # -- I33 -----------------------------------------------------------------------------------------------------------

    def watch(self, cluster: ClusterClient) -> None:
        """A new client's."""
        self.known[cluster] = _Knowledge()

    def after_step(self) -> None:
        """Checks the clients' process."""
        self.readers.after_step()
        for cluster, known in self.known.items():
            cache = cluster.cache
            if cache.changes != known.changes:
                known.changes = cache.changes
                self._changed(cluster, known)

    def _changed(self, cluster: ClusterClient, known: _Knowledge) -> None:
        cache = cluster.cache
        if cache.cluster_id == known.cluster_id and cache.metadata_offset < known.metadata_offset:
            offsets = f"from metadata offset {known.metadata_offset} to {cache.metadata_offset}"
            raise Violated(f"I33: a client goes back {offsets}")
        known.cluster_id, known.metadata_offset = cache.cluster_id, cache.metadata_offset
        for tp, leader in cache.leaders.items():
            topic_id = cache.topic_id(tp.topic)
            before = known.leaders.get((tp, topic_id))
            if before == leader:
                continue
            if before is not None and leader.epoch < before.epoch:
                raise Violated(f"I33: a client that knew {before} of {tp} goes back to {leader}")
            known.leaders[tp, topic_id] = leader
            if not self._metadata.may_lead(PartitionKey(topic_id, tp.partition), leader.node_id, leader.epoch):
                raise Violated(f"I33: a client takes {leader} for the leader of {tp}, topic id {topic_id}")

    # -- I34 -----------------------------------------------------------------------------------------------------------

    def deep(self, now_s: float) -> None:
        """Which topics work, and who has which streams; no more of clients that are closed."""
        self.known = {cluster: known for cluster, known in self.known.items() if not cluster.connections.closed}
        self._check_streams()
        self.neighbours.deep(now_s)
        self.readers.deep(now_s)
        before, self.well = self.well, {}
        for name in self._metadata.newest.topics_by_name if self._is_calm() else ():
            leaders = self._leaders_that_work(name)
            if leaders:
                was, since_s = before.get(name, ((), now_s))
                self.well[name] = leaders, since_s if was == leaders else now_s

    def answered(self, topic: str, waited_s: float, now_s: float) -> None:
        """A producer has its answer for a record that had no others to wait for."""
        _, since_s = self.well.get(topic, ((), now_s))
        works_s = now_s - since_s
        if min(waited_s, works_s) > FOUND_SECONDS:
            self._broken(f"I34: a producer waits {waited_s:.1f} s for {topic}, whose leaders work for {works_s:.1f} s")

    def _is_calm(self) -> bool:
        network = self._machines[0].network
        is_slow = network.weather.late_seconds > CALM_WEATHER_SECONDS and network.weather.late_per_mille > 0
        return not (is_slow or network.late_next)

    def _leaders_that_work(self, topic: str) -> Leaders:
        """The leaders of all its partitions; () unless each is led by a broker that clients and its ISR can reach."""
        image = self._metadata.newest
        found: list[tuple[str, int, int]] = []
        voters = [machine for machine in self._machines if machine.config.is_controller]
        for number, known in sorted(image.topics_by_name[topic].partitions.items()):
            if known.leader_id == NO_LEADER:
                return ()
            leader = self._machines[known.leader_id]
            hosted = hosted_by(leader).find(TopicPartition(topic, number))
            members = [*(self._machines[member] for member in known.isr), *voters]
            if hosted is None or hosted.leading is None or hosted.leading.leader_epoch != known.leader_epoch:
                return ()
            if len(known.isr) < hosted.min_insync_replicas or not leader.is_in_service:
                return ()
            if any(is_down(member) or _has_bad_disk(member) for member in members):
                return ()
            names = {CLIENTS, *(member.name for member in members)}
            if any(link.is_cut and names.issuperset(way) for way, link in leader.network.links.items()):
                return ()
            found.append((known.topic_id, known.leader_id, known.leader_epoch))
        return tuple(found)

    # -- I35 -----------------------------------------------------------------------------------------------------------

    def handling(self, machine: Machine, request: Request, partitions: HostedPartitions) -> None:
        """A broker begins with a request."""
        body = request.body
        if isinstance(body, InitProducerIdRequest):
            owner = body.transactional_id
            request.sink = _HeardSink(request.sink, lambda answer: self._given(machine, owner, answer))
        if isinstance(body, ProduceRequest) and body.acks and _was_given_up(request, body):
            asked = [found for key, _, _ in body.partitions if (found := partitions.find(key)) is not None]
            self._given_up[machine.name] = [(partition, partition.log.log_end_offset) for partition in asked]
        else:
            self._given_up.pop(machine.name, None)

    def handled(self, machine: Machine) -> None:
        """The broker has done with the request what it does at once."""
        if any(partition.log.log_end_offset != end for partition, end in self._given_up.pop(machine.name, ())):
            self._broken(f"I35: {machine.name} appends what its client has given up")

    # -- I38 -----------------------------------------------------------------------------------------------------------

    def _given(self, machine: Machine, owner: str | None, answer: InitProducerIdResponse) -> None:
        """A transactional id has one producer id in one epoch after the other; without one an id is given once."""
        given = answer.producer_id, answer.producer_epoch
        before = self._giver_of.get(given)
        if before is not None or self._owner_of.setdefault(given[0], owner) != owner:
            self._broken(f"I38: {machine.name} gives producer id {given} to {owner!r}, which {before} gave before")
        self._giver_of[given] = machine.name

    # -- I36 -----------------------------------------------------------------------------------------------------------

    def _check_streams(self) -> None:
        calls = self._machines[0].network.of_clients()
        produces = [e for e in calls if e.method.endswith("/Produce") and not getattr(e.channel, "is_shared", False)]
        if len({exchange.channel for exchange in produces}) < len(produces):
            raise Violated(f"I36: a producer has several streams to one broker: {produces}")


class _HeardSink:
    """Hears the producer id that a request is answered with."""

    def __init__(self, sink: ResponseSink, given: Callable[[InitProducerIdResponse], None]) -> None:
        self._sink, self._given = sink, given

    def response_ready(self, request: Request) -> None:
        if isinstance(request.response, InitProducerIdResponse):
            self._given(request.response)
        self._sink.response_ready(request)


def _has_bad_disk(machine: Machine) -> bool:
    faults = machine.faults
    return bool(
        faults.full or faults.failing or faults.slow_seconds or faults.hung or faults.fail_next or faults.strike
    )


def _was_given_up(request: Request, body: ProduceRequest) -> bool:
    """Its stream is gone, or its time-out passed while it was queued."""
    queued_ms = (request.dequeued_ns - request.received_ns) / 1e6
    return request.is_abandoned or 0 < body.timeout_ms < queued_ms
