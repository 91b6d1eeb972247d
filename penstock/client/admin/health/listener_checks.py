"""Judges the listeners of a cluster: those of the nodes for strangers, those for clients for what some brokers lack.

Clients of a listener are told of that listener's addresses (KIP-103). So a listener for clients should be on every
broker, with one protocol: a partition that a broker without it leads has no leader for these clients. All of it works
as it was configured, so each finding is a warning.
"""

from __future__ import annotations

from collections import defaultdict

from penstock.client.admin.cluster_views import ClusterViews
from penstock.client.admin.health.health_check import (
    OK,
    PARTITIONS_NAMED_MAX,
    WARNING,
    HealthCheck,
    nodes_listed,
)
from penstock.messages.quorum import QuorumInfo


def client_listeners(views: ClusterViews) -> HealthCheck:
    """A listener for clients that some brokers do not have, or that speaks another protocol there."""
    at: defaultdict[str, list[int]] = defaultdict(list)
    for broker in views.newest.brokers:
        for listener in broker.listeners:
            at[listener.name].append(broker.node_id)
    brokers = [broker.node_id for broker in views.newest.brokers if broker.listeners]
    found = [
        f"{name} is not on {nodes_listed(missing)}: its clients get LISTENER_NOT_FOUND for the partitions led there"
        for name, having in at.items()
        if (missing := sorted(set(brokers).difference(having)))
    ]
    types: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for status in views.statuses:
        for name, kind in status.listener_types.items():
            types[name][kind].append(status.node_id)
    for name, by_type in types.items():
        if len(by_type) > 1:
            spoken = " and ".join(f"{kind} on {nodes_listed(ids)}" for kind, ids in sorted(by_type.items()))
            found.append(f"{name} speaks {spoken}: its clients cannot talk to all of them")
    if not found:
        if not at:
            return HealthCheck("client listeners", OK, "not known of a cluster of an older release")
        names = (f"{name} ({next(iter(types[name]))})" if types[name] else name for name in at)
        return HealthCheck("client listeners", OK, f"{', '.join(names)} on every broker")
    return HealthCheck(
        "client listeners",
        WARNING,
        f"{len(found)} that some brokers do not have as the others do",
        "give every broker the same names in listeners, and the same types in listener.type.map",
        tuple(found[:PARTITIONS_NAMED_MAX]),
    )


def open_node_listeners(views: ClusterViews, quorum: QuorumInfo | None) -> HealthCheck:
    """A listener of the nodes themselves that every machine can reach."""
    exposed = [(s.node_id, at) for s in views.statuses for at in s.node_listeners if at.is_exposed]
    voters = {voter.node_id for voter in quorum.voters} if quorum is not None else set()  # only brokers are asked
    unknown_of = voters.union(broker.node_id for broker in views.newest.brokers)
    unknown_of -= {s.node_id for s in views.statuses if s.node_listeners}
    unknown = f"; not known of {nodes_listed(sorted(unknown_of))}" if unknown_of else ""
    if not exposed:
        return HealthCheck("node listeners", OK, f"none is known to be open to every network{unknown}")
    return HealthCheck(
        "node listeners",
        WARNING,
        f"{len(exposed)} open to every network of the machine{unknown}",
        "in listeners, give an address of the nodes' own network, or let a firewall keep all other machines out",
        tuple(
            f"node {node_id}: {listener}: every machine that reaches it can act as a node of the cluster"
            for node_id, listener in exposed[:PARTITIONS_NAMED_MAX]
        ),
    )
