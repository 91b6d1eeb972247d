"""Counts the changes of topics that clients ask for, for their quotas (KIP-599): partitions made and deleted.

They count when the authorizer has let them through, whether the controller makes them or not. Not here: who waits how
long (`broker/quotas/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.apis.router import Handle
from broker.network.request_channel import Request
from broker.quotas.request_quotas import RequestQuotas
from metadata.image import MetadataImage
from penstock.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

Count = Callable[[Any, MetadataImage], int]


def charged(
    handlers: Mapping[str, Handle], quotas: RequestQuotas, image: Callable[[], MetadataImage]
) -> dict[str, Handle]:
    """The handlers by name, where those of changes count first."""

    def of(handle: Handle, count: Count) -> Handle:
        def counted(request: Request, body: Any) -> None:
            if quotas.is_active:
                quotas.changed(request, count(body, image()))
            handle(request, body)

        return counted

    return {**handlers, **{name: of(handlers[name], count) for name, count in COUNTS.items()}}


def _created(body: CreateTopicsRequest, image: MetadataImage) -> int:
    """A topic that leaves the number to the cluster counts as one."""
    return 0 if body.validate_only else sum(max(1, one.partitions, len(one.assignment)) for one in body.topics)


def _added(body: CreatePartitionsRequest, image: MetadataImage) -> int:
    topics = image.topics_by_name
    has = {one.name: len(topics[one.name].partitions) if one.name in topics else one.total for one in body.topics}
    return 0 if body.validate_only else sum(max(0, one.total - has[one.name]) for one in body.topics)


def _deleted(body: DeleteTopicsRequest, image: MetadataImage) -> int:
    topics = image.topics_by_id
    return sum(len(topics[topic_id].partitions) for topic_id in set(body.topic_ids) if topic_id in topics)


COUNTS: Final[Mapping[str, Count]] = {
    "CreateTopics": _created,
    "CreatePartitions": _added,
    "DeleteTopics": _deleted,
}
