"""The coordinator of groups on one broker: beside what every coordinator does (coordination/coordinator.py), it

    asks about the transaction of offsets before a shard takes them     transactional_offsets.py
    writes the marker of a transaction that has committed offsets       for the partition's leader, which this broker is
    tells its shards which topics have changed                          as a publisher of the metadata

Not here: decisions (groups/shard/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.coordination.coordinator import Coordinator
from broker.coordination.image_topics import ImageTopics
from broker.coordination.joined_answers import answers, client_of
from broker.coordination.shard_ports import ShardPorts
from broker.coordination.state_topic import StateTopic
from broker.groups.coordinator.many_groups import GROUP_IDS
from broker.groups.coordinator.transactional_offsets import TransactionalOffsets, Verification, of_leaders
from broker.groups.shard.shard import Shard
from broker.network.request_channel import Request
from broker.replication.leader.purgatory import Waiter
from broker.replication.partition import Partition
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.errors import ApiError
from penstock.messages.transactions.markers import TxnMarker
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.record.markers import Marker


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

    def write_marker(self, partition: Partition, marker: TxnMarker, told: Waiter) -> None:
        """A transaction has ended that committed offsets in this partition: have its marker written. `told` is called
        once: the marker is committed, or the error."""
        shard = self.shard_on(partition)
        if shard is None:
            told(partition.not_leader())
            return
        end = Marker(marker.producer_id, marker.producer_epoch, marker.is_committed, marker.coordinator_epoch)
        shard.write_marker(lambda error: told(of_leaders(error)), end, marker.transaction_version)
