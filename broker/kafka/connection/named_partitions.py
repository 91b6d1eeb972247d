"""Finds the partitions that a client's request to a leader names, in Kafka's terms: by names, or by ids of topics.

They are looked at before the plan of the request begins, because a plan takes names for ids at once. Metadata is there,
too: a broker is not told of as a leader while it still opens its log. Of topics that it does not know nothing is waited
for, because clients ask for those again and again. Not here: the wait (`broker/apis/arrivals/`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from broker.kafka.connection.plan_run import call_of
from broker.kafka.schemas.fetch import FetchRequest
from broker.kafka.schemas.metadata import MetadataRequest
from broker.kafka.schemas.offsets import DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from broker.kafka.schemas.produce import ProduceRequest
from broker.network.connection_loop import Prepare
from broker.network.named_partitions import Arrivals, Named, NamedPartition
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from penstock.messages.security.acls import Operation

TOLD_MAX: Final = 256
"""The partitions of one Metadata that are looked at. Its answer is often encoded already, and costs less than many."""


def _produced(body: ProduceRequest) -> Named:
    def partitions() -> Iterator[NamedPartition]:
        for topic in body.topic_data:
            for one in topic.partition_data:
                yield NamedPartition(topic.name, topic.topic_id, one.index)

    return Named(Operation.WRITE, partitions(), body.timeout_ms)


def _fetched(body: FetchRequest) -> Named:
    def partitions() -> Iterator[NamedPartition]:
        for topic in body.topics:
            for one in topic.partitions:
                yield NamedPartition(topic.topic, topic.topic_id, one.partition, one.current_leader_epoch)

    return Named(Operation.READ, partitions(), body.max_wait_ms)


def _listed(body: ListOffsetsRequest) -> Named:
    def partitions() -> Iterator[NamedPartition]:
        for topic in body.topics:
            for one in topic.partitions:
                yield NamedPartition(topic.name, "", one.partition_index, one.current_leader_epoch)

    return Named(Operation.DESCRIBE, partitions(), body.timeout_ms or None)


def _of_epochs(body: OffsetForLeaderEpochRequest) -> Named:
    def partitions() -> Iterator[NamedPartition]:
        for topic in body.topics:
            for one in topic.partitions:
                yield NamedPartition(topic.topic, "", one.partition, one.current_leader_epoch)

    return Named(Operation.DESCRIBE, partitions())


def _deleted(body: DeleteRecordsRequest) -> Named:
    def partitions() -> Iterator[NamedPartition]:
        for topic in body.topics:
            for one in topic.partitions:
                yield NamedPartition(topic.name, "", one.partition_index)

    return Named(Operation.DELETE, partitions(), body.timeout_ms)


def _told(body: MetadataRequest, image: MetadataImage) -> Named:
    def partitions() -> Iterator[NamedPartition]:
        for one in body.topics or ():
            topic = image.topics_by_id.get(one.topic_id) if one.name is None else image.topics_by_name.get(one.name)
            if topic is not None:
                for number in topic.partitions:
                    yield NamedPartition(topic.name, topic.topic_id, number)

    return Named(Operation.DESCRIBE, islice(partitions(), TOLD_MAX))


NAMED: Final[Mapping[type[Any], Callable[[Any], Named]]] = {
    ProduceRequest: _produced,
    FetchRequest: _fetched,
    ListOffsetsRequest: _listed,
    OffsetForLeaderEpochRequest: _of_epochs,
    DeleteRecordsRequest: _deleted,
}
"""The requests to leaders, by their types."""


def arrivals_of(arrivals: Arrivals | None, image: Callable[[], MetadataImage]) -> Prepare:
    """Waits for the partitions of a client's request, BEFORE its plan begins."""

    def begin(request: Request) -> Awaitable[None] | None:
        if arrivals is None:
            return None
        body = call_of(request).body
        if isinstance(body, MetadataRequest):
            return arrivals.begin(request.caller, _told(body, image())) if body.topics else None
        named = NAMED.get(type(body))
        return None if named is None else arrivals.begin(request.caller, named(body))

    return begin
