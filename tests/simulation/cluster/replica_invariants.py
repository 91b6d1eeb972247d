"""I56: what a broker does with a replica is what the replica's state says, by the table of states itself.

A replica that is served takes requests, over the very log that is in use here; it leads if and only if it is Led. Any
other takes none, and one whose log has rotted is not served by that log again. Looked at between two steps of a
process, where no replica is Opened: it has its role by then. Not here: the ways from one state to another, which the
product refuses by itself (`broker/replication/hosting/replica_states.py`).

I57: what parts of a node were told of its leads (`role_news.py`) is what it leads, once all that has changed is told.
"""

from __future__ import annotations

from broker.node.node import Node
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.hosting.replica_states import LOST, SERVED, TO_CREATE, HostingState, Replica
from storage.log_dirs.log_table import LogTable
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.machine import Machine


def check_replicas(machine: Machine, node: Node) -> None:
    """Each replica of the node's broker; the loop is not in the middle of anything."""
    if node.broker is None:
        return
    for replica in node.broker.replication.replicas.hosted.replicas():
        if found := wrong(replica, node.log_manager.table):
            raise Violated(f"I56: {machine.name}, {replica.key} is {replica.state.value}, and {found}")
    _check_news(machine, node.broker.replication.replicas)


def _check_news(machine: Machine, replicas: ReplicaParts) -> None:
    leads = {
        partition.topic_partition: (partition, partition.leading.leader_epoch)
        for partition in replicas.hosted.all()
        if partition.leading is not None
    }
    if replicas.news.is_announced and replicas.news.led != leads:
        raise Violated(f"I57: {machine.name} leads {leads}, and its parts were told of {replicas.news.led}")


def wrong(replica: Replica, logs: LogTable) -> str:
    """Where the replica is not what its state says; "" if it is."""
    return _of_served(replica, logs) if replica.state in SERVED else _of_others(replica)


def _of_served(replica: Replica, logs: LogTable) -> str:
    partition = replica.partition
    if partition is None or replica.state is HostingState.OPENED:
        return "has no role"
    if partition.offline is not None or replica.lost is not None:
        return f"refuses requests: {partition.offline}"
    if (partition.leading is not None) != (replica.state is HostingState.LED):
        return f"leads: {partition.leading is not None}"
    log = partition.log
    if not log.closed and logs.logs.get(replica.key, partition.topic_id) is not log:
        return f"is served over {log.directory}, which is not in use"
    return ""


def _of_others(replica: Replica) -> str:
    partition, state = replica.partition, replica.state
    if partition is not None and partition.offline is None:
        return "takes requests"
    if partition is not None and state in TO_CREATE | {HostingState.ABSENT, HostingState.WITHOUT_LOG}:
        return "has a partition"
    if state in LOST and replica.lost is None:
        return "nobody knows why"
    return ""
