"""The coordinator of groups on one broker. Beside the work of every coordinator (coordination/coordinator.py), it

    asks about the transaction of offsets before a shard takes them     transactional_offsets.py
    writes the marker of a transaction that has committed offsets       for the partition's leader, which this broker is
    tells its shards which topics have changed                          as a publisher of the metadata
    says which ids a group may have, and which APIs name several        `check_group_id`, `GROUP_IDS`

Not here: decisions (groups/shard/), and how requests about several groups are parted and their answers joined
(coordination/joined_answers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from broker.coordination.coordinator import CoordinatedIds, Coordinator
from broker.coordination.image_topics import ImageTopics
from broker.coordination.joined_answers import ManyIds, answers, client_of
from broker.coordination.shard_ports import ShardPorts
from broker.coordination.state_topic import StateTopic
from broker.groups.coordinator.transactional_offsets import TransactionalOffsets, Verification, of_leaders
from broker.groups.shard.shard import Shard
from broker.network.request_channel import Request
from broker.replication.leader.purgatory import Waiter
from broker.replication.partition import Partition
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.errors import ApiError, InvalidGroupIdError
from penstock.messages.groups.listing import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.messages.groups.offsets import GroupOffsets, OffsetFetchRequest, OffsetFetchResponse
from penstock.messages.transactions.markers import TxnMarker
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.record.markers import Marker

GROUP_ID_CHARACTERS_MAX: Final = 255
"""Kafka takes up to 32,767 bytes. An id is in the key of every record of its group, and in memory for each of them."""


def _narrowed_ids(request: Any, places: Sequence[int]) -> Any:
    return replace(request, group_ids=tuple(request.group_ids[place] for place in places))


_SEVERAL: Final[dict[type, ManyIds]] = {
    DescribeGroupsRequest: ManyIds(
        lambda request: request.group_ids,
        _narrowed_ids,
        lambda answer: answer.groups,
        lambda request, place, error: DescribedGroup(request.group_ids[place], error),
        DescribeGroupsResponse,
    ),
    DeleteGroupsRequest: ManyIds(
        lambda request: request.group_ids,
        _narrowed_ids,
        lambda answer: answer.groups,
        lambda request, place, error: DeletedGroup(request.group_ids[place], error),
        DeleteGroupsResponse,
    ),
    OffsetFetchRequest: ManyIds(
        lambda request: [group.group_id for group in request.groups],
        lambda request, places: replace(request, groups=tuple(request.groups[place] for place in places)),
        lambda answer: answer.groups,
        lambda request, place, error: GroupOffsets(request.groups[place].group_id, error),
        OffsetFetchResponse,
    ),
}


def _joined(answers: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    """The groups of all shards."""
    return ListGroupsResponse(tuple(group for answer in answers for group in answer.groups))


GROUP_IDS: Final = CoordinatedIds(word="group", several=_SEVERAL, listing=ListGroupsRequest, joined=_joined)


def check_group_id(group_id: str) -> None:
    """InvalidGroupIdError if no group can have this id."""
    if not group_id:
        raise InvalidGroupIdError("the group id is empty; give the group a name")
    if len(group_id) > GROUP_ID_CHARACTERS_MAX:
        raise InvalidGroupIdError(
            f"the group id has {len(group_id)} characters, the limit is {GROUP_ID_CHARACTERS_MAX}; give the group a"
            " shorter name"
        )


class GroupCoordinator(Coordinator[Shard]):
    """The coordinator of groups. There is one per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        topic: StateTopic,
        topics: ImageTopics,
        ports: ShardPorts,
        make_core: Callable[[], Shard],
        verification: Verification,
    ) -> None:
        super().__init__(broker_id, topic, ports, lambda lead: make_core(), GROUP_IDS)
        self._topics = topics
        self._transactional = TransactionalOffsets(verification, ports.commit_timeout_ms)

    async def stop(self) -> None:
        self._transactional.stop()
        await super().stop()

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        news = self._topics.published(delta, image)
        if news:
            for shard in self.shards:
                shard.topics_changed(news.changed, news.deleted)

    def submit(self, request: Request, group_id: str, body: Any) -> None:
        """A request about one group; it is answered now or later."""
        shard, answer, client = self.shard_of(group_id), answers(request), client_of(request)
        if isinstance(body, TxnOffsetCommitRequest):
            self._transactional.submit(shard, answer, body, client)
        else:
            shard.submit(answer, body, client)

    def removes_another(self, request: Request, group_id: str, body: Any) -> bool:
        """True if the request, should it succeed, removes a member of somebody else from a group that is led here."""
        try:
            core = self.shard_of(group_id).core
        except ApiError:
            return False
        return core.removes_another(body, client_of(request))

    def write_marker(self, partition: Partition, marker: TxnMarker, on_committed: Waiter) -> None:
        """A transaction has ended that committed offsets in this partition: have its marker written. `on_committed` is
        called once: the marker is committed, or the error."""
        shard = self.shard_on(partition)
        if shard is None:
            on_committed(partition.not_leader())
            return
        end = Marker(marker.producer_id, marker.producer_epoch, marker.is_committed, marker.coordinator_epoch)
        shard.write_marker(lambda error: on_committed(of_leaders(error)), end, marker.transaction_version)
