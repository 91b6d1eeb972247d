"""The feature levels of the cluster, and which of them its nodes support, as this node knows it.

The quorum's leader knows what each node has said with its last fetch of the metadata; a registration has it, too, from
metadata.version 2 on. Reads only. Not here: which change of a level follows from it (metadata/controller/features.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from metadata.controller.features import HeardNode
from metadata.features import KRAFT_VERSION, FeatureTable, ranges_of
from metadata.image import MetadataImage
from penstock.messages.features import FeatureInfo, FeatureLevelInfo, FeatureNode, FeatureRange, FeaturesInfo
from raft.statistics import QuorumDescription
from raft.voters import VoterSet


def heard_nodes(quorum: QuorumDescription, own_id: int, recent_ms: int) -> tuple[HeardNode, ...]:
    """The voters, and all other nodes that fetch the metadata. A node is heard if it has fetched within `recent_ms`:
    it has then said what the release that it runs now supports."""
    is_voter = (True,) * len(quorum.voters) + (False,) * len(quorum.observers)
    found = []
    for one, votes in zip((*quorum.voters, *quorum.observers), is_voter, strict=True):
        ago, is_own = one.last_fetch_ms_ago, one.replica_id == own_id
        has_fetched = ago is not None and one.log_end_offset >= 0  # a leader counts each voter as seen at its beginning
        is_heard = is_own or (has_fetched and ago is not None and ago <= recent_ms)
        shown_ms = 0 if is_own else ago if has_fetched and ago is not None else -1
        found.append(HeardNode(one.replica_id, votes, is_heard, one.supports, shown_ms))
    return tuple(found)


def features_info(
    table: FeatureTable,
    image: MetadataImage,
    voters: VoterSet,
    nodes: Sequence[HeardNode] | None,
) -> FeaturesInfo:
    """The answer to DescribeFeatures. `nodes` are None on a node that does not lead the quorum: it knows the
    registrations alone."""
    levels = {**table.levels(image.levels), KRAFT_VERSION: int(voters.is_dynamic)}
    features = tuple(
        FeatureInfo(
            name,
            *one.range,
            level=levels[name],
            levels=tuple(FeatureLevelInfo(each.level, each.since, each.allows) for each in one.levels),
        )
        for name, one in table.features.items()
    )
    return FeaturesInfo(features, tuple(_nodes(image, voters, nodes or ())), image.offset, only_own_view=nodes is None)


def _nodes(image: MetadataImage, voters: VoterSet, heard: Sequence[HeardNode]) -> Iterator[FeatureNode]:
    """Each by its newest word, in the order of the ids."""
    newest: dict[int, HeardNode] = {}
    for node in heard:
        known = newest.get(node.node_id)
        if known is None or (node.last_heard_ms_ago >= 0 and _age(node) < _age(known)):
            newest[node.node_id] = node
    for node_id in sorted(newest.keys() | image.brokers.keys() | set(voters.ids)):
        broker, found = image.brokers.get(node_id), newest.get(node_id)
        is_heard = found is not None and found.last_heard_ms_ago >= 0
        says = found.supports if found is not None and is_heard else broker.features if broker is not None else ""
        ago_ms = found.last_heard_ms_ago if found is not None else -1
        yield FeatureNode(node_id, voters.is_voter(node_id), broker is not None, _ranges(says), ago_ms)


def _age(node: HeardNode) -> float:
    return node.last_heard_ms_ago if node.last_heard_ms_ago >= 0 else float("inf")


def _ranges(says: str) -> tuple[FeatureRange, ...]:
    try:
        return tuple(FeatureRange(name, *one) for name, one in ranges_of(says).items()) if says else ()
    except ValueError:
        return ()
