"""The conditions of `/syncz`: is everything whole that depends on this node, so that another one may stop?

An upgrade in Kubernetes asks for them before it stops the next node (docs/kubernetes.md): a node that has just started
serves before its replicas have caught up, and with two of three replicas away a partition takes no acks=all write.

    replicas    each replica of this broker is in its partition's ISR. Not counted are replicas that a reassignment
                brings, which may take hours, and those of partitions without a leader, from which nothing can be
                fetched
    vote        a controller that is to join the quorum by itself (controller.quorum.auto.join.enable) is a voter, with
                the disk that it has now

Each is about this node alone. So nodes that start together wait for nobody's readiness, and a broker that lags does not
make the others unready. Pure. Not here: the page, and the conditions of `/readyz` (operator_pages.py).
"""

from __future__ import annotations

from typing import Final

from metadata.image import MetadataImage
from raft.voters import VoterSet

NAMED_MAX: Final = 3
"""So many partitions are named; the rest is counted."""


def replicas_missing(image: MetadataImage, broker_id: int) -> str:
    """The replicas of the broker that are not in sync, in words; "" where there is none."""
    held, lagging = 0, []
    for topic in image.topics_by_id.values():
        for partition in topic.partitions.values():
            if broker_id not in partition.replicas or partition.is_moving_to(broker_id):
                continue
            held += 1
            if broker_id not in partition.isr and partition.has_leader:
                lagging.append((topic.name, partition.partition))
    if not lagging:
        return ""
    names = [f"{topic}-{partition}" for topic, partition in sorted(lagging)[:NAMED_MAX]]
    more = ", …" if len(lagging) > NAMED_MAX else ""
    return f"{len(lagging)} of {held} replicas are not in sync yet: {', '.join(names)}{more}"


def vote_missing(voters: VoterSet, node_id: int, directory_id: str) -> str:
    """Why a controller that joins by itself does not vote, in words; "" where it does, and in a static quorum."""
    if voters.names(node_id, directory_id):
        return ""
    return f"controller {node_id} is not a voter yet, with the disk {directory_id}"
