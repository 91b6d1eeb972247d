"""I56 finds a replica that is not what its state says, and I57 a lead that nobody was told of, in a healthy cluster to
which it is told, and put right again."""

from __future__ import annotations

from collections.abc import Callable

from broker.replication.hosting.replica_states import HostingState, LostReplica, Replica
from broker.replication.partition import Partition
from penstock.errors import CorruptFileError, KafkaStorageError
from storage.log_dirs.log_table import LogTable
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.replica_invariants import check_replicas
from tests.simulation.cluster.test_invariants import Scene, judged

REFUSAL = KafkaStorageError("offline")


def _reports(replica: Replica, state: HostingState) -> None:
    replica._state = state


def _is_not_in_use(partition: Partition, logs: LogTable) -> None:
    logs.logs.pop(partition.topic_partition, partition.topic_id)


def _rotten(replica: Replica) -> None:
    replica._lost = LostReplica(CorruptFileError("0.log", 0, "rot"), 1)


def test_a_replica_that_is_not_what_its_state_says_is_found() -> None:
    found: list[str] = []

    def lie(scene: Scene) -> None:
        machine, partition = scene.leader
        node = machine.node
        assert node is not None and node.broker is not None
        replica, logs = (
            node.broker.replication.replicas.hosted.replica(partition.topic_partition),
            node.log_manager.table,
        )
        assert replica is not None and replica.state is HostingState.LED
        leading, log, state = partition.leading, partition.log, replica.state
        lies: tuple[Callable[[], object], ...] = (
            lambda: _reports(replica, HostingState.FOLLOWED),
            lambda: _reports(replica, HostingState.OPENED),
            lambda: _reports(replica, HostingState.OUT_OF_USE),
            lambda: _reports(replica, HostingState.HELD),
            lambda: partition.hold(REFUSAL),
            lambda: _is_not_in_use(partition, logs),
            lambda: _rotten(replica),
        )
        for judged_now in lies:
            judged_now()
            try:
                check_replicas(machine, node)
            except Violated as violated:
                found.append(str(violated))
            replica._state, replica._lost, partition.leading, partition._offline = state, None, leading, None
            logs.logs.put(partition.topic_partition, partition.topic_id, log)
        check_replicas(machine, node)

    assert not judged(lie).failures
    assert len(found) == 7 and all(line.startswith("I56: ") for line in found)


def test_a_lead_that_is_not_as_it_was_told_is_found() -> None:
    found: list[str] = []

    def lie(scene: Scene) -> None:
        machine, partition = scene.leader
        node = machine.node
        assert node is not None and node.broker is not None and partition.leading is not None
        news, key = node.broker.replication.replicas.news, partition.topic_partition
        truth = news.led[key]
        for announced in (None, truth._replace(leader_epoch=truth.leader_epoch - 1)):
            del news.led[key]
            if announced is not None:
                news.led[key] = announced
            try:
                check_replicas(machine, node)
            except Violated as violated:
                found.append(str(violated))
            news.led[key] = truth
        check_replicas(machine, node)

    assert not judged(lie).failures
    assert len(found) == 2 and all(line.startswith("I57: ") for line in found)
