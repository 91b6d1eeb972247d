"""Metadata: brokers, topics, partitions and their leaders, from this node's own image.

The answer may be a moment older than the controller's state: `metadata_offset` says which state it is. Without a quorum
it may be much older, and `metadata_age_ms` says how old. An unknown topic name gets an error of its own; the other
topics are answered.

A client is told of the endpoints of the listener that it uses (KIP-103). A broker without a listener of that name is
left out, and a partition that it leads has the error LISTENER_NOT_FOUND in place of its leader. Not here: what is told
of one topic (topic_views.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.apis.cluster.topic_views import TopicViews
from broker.apis.served import Served
from broker.authorization.rules.records import metadata_rule
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from metadata.registrations import BrokerRegistration
from penstock.errors import ApiError, InvalidTopicError, UnknownTopicOrPartitionError
from penstock.messages.client_apis import METADATA
from penstock.messages.metadata import BrokerInfo, MetadataRequest, MetadataResponse, TopicInfo


class MetadataApi:
    """Handles metadata requests."""

    def __init__(
        self,
        cluster_id: str,
        image: Callable[[], MetadataImage],
        controller_id: Callable[[], int],
        views: TopicViews,
        metadata_age_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._metadata_age_ms = metadata_age_ms
        self._views = views
        self._cluster_id = cluster_id
        self._image = image
        self._controller_id = controller_id

    def handle(self, request: Request, body: MetadataRequest) -> None:
        image = self._image()
        names = sorted(image.topics_by_name) if body.topics is None else dict.fromkeys(body.topics)
        listener = request.caller.listener
        at = self._views.at(listener, image)

        def topic_view(name: str) -> TopicInfo:
            topic = image.topic(name)
            if topic is None:
                return TopicInfo(name, error=_why_unknown(name))
            return self._views.view(image, at, topic, log_dirs=body.include_log_dirs)

        request.complete(
            MetadataResponse(
                self._cluster_id,
                self._controller_id(),
                tuple(node_view(b, listener) for b in image.brokers.values() if b.broker_id not in at.unreachable),
                tuple(map(topic_view, names)),
                image.offset,
                self._metadata_age_ms(),
            )
        )


def _why_unknown(name: str) -> ApiError:
    if not name:
        return InvalidTopicError("a topic name must not be empty")
    return UnknownTopicOrPartitionError(f"topic {name!r} does not exist; create it first")


def node_view(broker: BrokerRegistration, listener: str) -> BrokerInfo:
    """The broker as a client of that listener reaches it; without an address if it has no such listener."""
    host, port = broker.endpoint_at(listener) or ("", 0)
    return BrokerInfo(broker.broker_id, host, port, broker.rack, broker.fenced)


SERVED: Final = (
    Served(
        api=METADATA,
        rule=metadata_rule,
        make=lambda parts: (
            MetadataApi(parts.cluster_id, parts.image, parts.leader_id, parts.views, parts.metadata_age_ms).handle
        ),
    ),
)
