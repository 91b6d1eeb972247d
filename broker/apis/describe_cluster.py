"""DescribeCluster: every registered broker, fenced ones included, and the active controller."""

from __future__ import annotations

from collections.abc import Callable

from broker.apis.metadata import node_view
from broker.network.request_channel import Request
from broker.requests import ClusterView, DescribeClusterRequest
from metadata.image import MetadataImage


class DescribeClusterApi:
    """Handles cluster descriptions, from this node's own image."""

    def __init__(self, cluster_id: str, image: Callable[[], MetadataImage], controller_id: Callable[[], int]) -> None:
        self._cluster_id = cluster_id
        self._image = image
        self._controller_id = controller_id

    def handle(self, request: Request, body: DescribeClusterRequest) -> None:
        image = self._image()
        brokers = tuple(node_view(image.brokers[broker_id]) for broker_id in sorted(image.brokers))
        request.complete(ClusterView(self._cluster_id, self._controller_id(), brokers, image.offset))
