"""Finds the partitions that a client's request to a leader or a coordinator names, in Kafka's terms: by names, or ids.

They are looked at before the plan of the request begins, because a plan takes names for ids at once. Metadata is there,
too: its answer waits while the broker that it asks opens logs that it leads. Of topics that it does not know nothing is
waited for, because clients ask for those again and again. Not here: the wait (`broker/apis/arrivals/`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from broker.kafka.connection.plan_run import call_of
from broker.kafka.schemas.fetch import FetchRequest
from broker.kafka.schemas.groups.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from broker.kafka.schemas.metadata import MetadataRequest
from broker.kafka.schemas.offsets import DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from broker.kafka.schemas.produce import ProduceRequest
from broker.kafka.schemas.producers import DescribeProducersRequest
from broker.kafka.schemas.transactions import AddPartitionsToTxnRequest, TxnOffsetCommitRequest
from broker.network.connection_loop import Prepare
from broker.network.named_partitions import Arrivals, Named, PlainNamed, commits, of_coordinator, writes
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.types import NO_EPOCH

METADATA_NAMED_MAX: Final = 256
"""The partitions of one Metadata that are looked at. Its answer is often encoded already, and costs less than many."""


def _produced(body: ProduceRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topic_data:
            for one in topic.partition_data:
                yield topic.name, topic.topic_id, one.index, NO_EPOCH

    return Named(Operation.WRITE, partitions(), body.timeout_ms)


def _fetched(body: FetchRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topics:
            for one in topic.partitions:
                yield topic.topic, topic.topic_id, one.partition, one.current_leader_epoch

    return Named(Operation.READ, partitions(), body.max_wait_ms)


def _listed(body: ListOffsetsRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topics:
            for one in topic.partitions:
                yield topic.name, "", one.partition_index, one.current_leader_epoch

    return Named(Operation.DESCRIBE, partitions(), body.timeout_ms or None)


def _of_epochs(body: OffsetForLeaderEpochRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topics:
            for one in topic.partitions:
                yield topic.topic, "", one.partition, one.current_leader_epoch

    return Named(Operation.DESCRIBE, partitions())


def _deleted(body: DeleteRecordsRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topics:
            for one in topic.partitions:
                yield topic.name, "", one.partition_index, NO_EPOCH

    return Named(Operation.DELETE, partitions(), body.timeout_ms)


def _described(body: DescribeProducersRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topics:
            for number in topic.partition_indexes:
                yield topic.name, "", number, NO_EPOCH

    return Named(Operation.READ, partitions())


def _committed(body: OffsetCommitRequest) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for topic in body.topics:
            for one in topic.partitions:
                yield topic.name, topic.topic_id, one.partition_index, NO_EPOCH

    return of_coordinator(Operation.READ, partitions(), commits(body.group_id))


def _committed_in_transaction(body: TxnOffsetCommitRequest) -> Named:
    needs = commits(body.group_id), writes(body.transactional_id)
    return of_coordinator(Operation.READ, _by_name(body.topics), *needs)


def _offsets_deleted(body: OffsetDeleteRequest) -> Named:
    needs = Need(Operation.DELETE, ResourceType.GROUP, body.group_id)
    return of_coordinator(Operation.READ, _by_name(body.topics), needs)


def _by_name(topics: Iterable[Any]) -> Iterator[PlainNamed]:
    for topic in topics:
        for one in topic.partitions:
            yield topic.name, "", one.partition_index, NO_EPOCH


def _offsets_fetched(body: OffsetFetchRequest) -> Named:
    """The topics that come by their ids: names are not looked up."""

    def partitions() -> Iterator[PlainNamed]:
        for group in body.groups:
            for topic in group.topics or ():
                if topic.topic_id:
                    for number in topic.partition_indexes:
                        yield "", topic.topic_id, number, NO_EPOCH

    needs = (Need(Operation.DESCRIBE, ResourceType.GROUP, group.group_id) for group in body.groups)
    return of_coordinator(Operation.DESCRIBE, partitions(), *needs)


def _added(body: AddPartitionsToTxnRequest) -> Named:
    topics = [*body.v3_and_below_topics, *(topic for one in body.transactions for topic in one.topics)]
    ids = [one.transactional_id for one in body.transactions] or [body.v3_and_below_transactional_id]
    partitions = ((topic.name, "", number, NO_EPOCH) for topic in topics for number in topic.partitions)
    return of_coordinator(Operation.WRITE, partitions, *map(writes, ids))


def _of_metadata(body: MetadataRequest, image: MetadataImage) -> Named:
    def partitions() -> Iterator[PlainNamed]:
        for one in body.topics or ():
            topic = image.topics_by_id.get(one.topic_id) if one.name is None else image.topics_by_name.get(one.name)
            if topic is not None:
                for number in topic.partitions:
                    yield topic.name, topic.topic_id, number, NO_EPOCH

    return Named(Operation.DESCRIBE, islice(partitions(), METADATA_NAMED_MAX))


NAMED: Final[Mapping[type[Any], Callable[[Any], Named]]] = {
    ProduceRequest: _produced,
    FetchRequest: _fetched,
    ListOffsetsRequest: _listed,
    OffsetForLeaderEpochRequest: _of_epochs,
    DeleteRecordsRequest: _deleted,
    DescribeProducersRequest: _described,
    OffsetCommitRequest: _committed,
    OffsetDeleteRequest: _offsets_deleted,
    OffsetFetchRequest: _offsets_fetched,
    TxnOffsetCommitRequest: _committed_in_transaction,
    AddPartitionsToTxnRequest: _added,
}
"""The requests to leaders and coordinators, by their types."""


def arrivals_of(arrivals: Arrivals | None, image: Callable[[], MetadataImage]) -> Prepare:
    """Waits for the partitions of a client's request, BEFORE its plan begins."""

    def begin(request: Request) -> Awaitable[None] | None:
        if arrivals is None:
            return None
        body = call_of(request).body
        if isinstance(body, MetadataRequest):
            return arrivals.begin(request.caller, _of_metadata(body, image())) if body.topics else None
        named = NAMED.get(type(body))
        return None if named is None else arrivals.begin(request.caller, named(body))

    return begin
