"""The coordinator of consumer groups on one broker: one shard for each partition of `__consumer_offsets` that it leads.

    request ──► the group's partition ──► its shard (led_shard.py) ──► the decision, appended ──► commit ──► answer

It hears which partitions the broker leads (`RoleListener`) and which topics have changed (a publisher of the metadata).
A request for a group of another broker gets NOT_COORDINATOR, one for a group that is being loaded
COORDINATOR_LOAD_IN_PROGRESS. Every request is answered, also when the broker stops. Not here: decisions (shard/).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from broker.coordination.image_topics import ImageTopics
from broker.coordination.joined_answers import JoinedList, answers, client_of, submit_parted
from broker.coordination.led_shard import LedShard
from broker.coordination.shard_ports import ShardPorts, ShardState
from broker.coordination.state_topic import StateTopic
from broker.groups.coordinator.many_groups import MANY_GROUPS, joined_groups
from broker.groups.coordinator.transactional_offsets import TransactionalOffsets, Verification, of_leaders
from broker.groups.shard.shard import Shard
from broker.network.request_channel import Request
from broker.replication.hosting.role_news import Lead
from broker.replication.leader.purgatory import Waiter
from broker.replication.partition import Partition
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import CONSUMER_OFFSETS
from penstock.errors import ApiError, NotCoordinatorError
from penstock.messages.groups.coordinators import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.messages.groups.listing import ListGroupsRequest
from penstock.messages.transactions.markers import TxnMarker
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.record.markers import Marker

_log = logging.getLogger(__name__)


class GroupCoordinator:
    """The coordinator of consumer groups. There is one per broker, on the event loop."""

    def __init__(
        self, broker_id: int, topic: StateTopic, topics: ImageTopics, ports: ShardPorts, verification: Verification
    ) -> None:
        self._broker_id, self._topic, self._topics, self._ports = broker_id, topic, topics, ports
        self._transactional = TransactionalOffsets(verification, ports.commit_timeout_ms)
        self._shards: dict[int, LedShard] = {}
        self._is_stopped = False

    def start(self) -> None:
        self._topic.start()

    async def stop(self) -> None:
        """Every request that waits is answered; those that come now get NOT_COORDINATOR. BEFORE the doors close."""
        self._is_stopped = True
        self._transactional.stop()
        while self._shards:
            self._shards.popitem()[1].close()
        await self._topic.stop()
        self._ports.loader.close()

    # -- news ----------------------------------------------------------------------------------------------------------

    def began_to_lead(self, lead: Lead) -> None:
        key = lead.partition.topic_partition
        if key.topic == CONSUMER_OFFSETS and not self._is_stopped:
            self._shards[key.partition] = LedShard(lead, self._ports)

    def ceased_to_lead(self, lead: Lead) -> None:
        key = lead.partition.topic_partition
        if key.topic == CONSUMER_OFFSETS and (shard := self._shards.pop(key.partition, None)) is not None:
            shard.close()

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        news = self._topics.published(delta, image)
        if news:
            for shard in self._shards.values():
                shard.topics_changed(news.changed, news.deleted)

    # -- requests ------------------------------------------------------------------------------------------------------

    def submit(self, request: Request, group_id: str, body: Any) -> None:
        """A request about one group; it is answered now or later."""
        shard, answer, client = self._shard_of(group_id), answers(request), client_of(request)
        if isinstance(body, TxnOffsetCommitRequest):
            self._transactional.submit(shard, answer, body, client)
        else:
            shard.submit(answer, body, client)

    def removes_another(self, request: Request, group_id: str, body: Any) -> bool:
        """True if the request, should it succeed, removes a member of somebody else from a group that is led here."""
        try:
            core = self._shard_of(group_id).core
        except ApiError:
            return False
        return isinstance(core, Shard) and core.removes_another(body, client_of(request))

    def submit_each(self, request: Request, body: Any) -> None:
        """A request about several groups of any shards, or about all groups here (ListGroups).

        A list leaves out a partition that cannot be read: its groups are nowhere else, and an operator needs the
        others. While one is being loaded there is no list, because it would be taken for a whole one."""
        if isinstance(body, ListGroupsRequest):
            shards = [shard for shard in self._shards.values() if shard.state is not ShardState.FAILED]
            joined = JoinedList(len(shards), joined_groups, answers(request))
            for shard in shards:
                shard.submit(joined, body, client_of(request))
            return
        submit_parted(MANY_GROUPS[type(body)], body, self._shard_of, client_of(request), answers(request))

    def write_marker(self, partition: Partition, marker: TxnMarker, told: Waiter) -> None:
        """A transaction has ended that committed offsets in this partition: have its marker written. `told` is called
        once: the marker is committed, or the error."""
        shard = self._shards.get(partition.topic_partition.partition)
        if shard is None or shard.partition is not partition:
            told(partition.not_leader())
            return
        end = Marker(marker.producer_id, marker.producer_epoch, marker.is_committed, marker.coordinator_epoch)
        shard.write_marker(lambda error: told(of_leaders(error)), end, marker.transaction_version)

    def partition_of(self, group_id: str) -> int:
        """The partition of the groups' topic that has the group. An ApiError for an id that no group can have, and
        while there is no topic: it is being made then."""
        return self._topic.partition_of(group_id)

    def find(self, request: Request, body: FindCoordinatorRequest) -> None:
        """FindCoordinator of groups; answered at once."""
        found = tuple(self._topic.coordinator_of(key) for key in body.keys)
        answers(request)(FindCoordinatorResponse(found))

    def _shard_of(self, group_id: str) -> LedShard:
        number = self._topic.partition_of(group_id)
        shard = self._shards.get(number)
        if shard is None:
            raise NotCoordinatorError(
                f"broker {self._broker_id} does not lead {CONSUMER_OFFSETS}-{number}, which has group {group_id!r}"
            )
        return shard

    @property
    def shards(self) -> Iterator[LedShard]:
        """The shards in no order; for statistics, which may be read in any thread."""
        return iter(tuple(self._shards.values()))

    def __repr__(self) -> str:
        return f"GroupCoordinator(broker {self._broker_id}, {len(self._shards)} shards)"
