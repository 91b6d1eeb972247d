"""The topics of an image as the clients of one listener are told of them.

A view is made once: it stays the same object until the topic, its configuration or a broker changes, so that a client's
refresh costs a look-up for each topic, and a listener may keep what it has encoded of the view. A partition that this
broker should lead, and has lost, is in no image, so it is looked for again in each answer.

If the log of a partition is lost on the broker that leads it, the image does not say so, because no other replica may
lead. Only that leader reports it in its own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from metadata.image import MetadataImage, TopicImage
from metadata.offline import offline_reason, offline_text
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.errors import ApiError, LeaderNotAvailableError, ListenerNotFoundError
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.types import NO_LEADER, TopicPartition

WhyLost = Callable[[TopicPartition, PartitionRegistration], str]
"""The reason why this broker cannot lead a partition that it should lead; "" when it can.
`LostReplicas.why_offline`."""


class _View(NamedTuple):
    """The view of a topic, and of what it was made."""

    topic: TopicImage
    config: Mapping[str, str]
    led: tuple[tuple[TopicPartition, PartitionRegistration], ...]
    """The partitions that this broker leads."""
    info: TopicInfo


class ListenerView:
    """The brokers of one table as the clients of one listener reach them, and the views made with it."""

    def __init__(self, listener: str, brokers: Mapping[int, BrokerRegistration]) -> None:
        self.listener, self.brokers = listener, brokers
        self.nowhere = frozenset(b.broker_id for b in brokers.values() if b.endpoint_at(listener) is None)
        """The brokers that have no listener of that name."""
        self.unreachable = self.nowhere.union(b.broker_id for b in brokers.values() if b.fenced)
        self.views: dict[str, _View] = {}

    def offline_replicas(self, partition: PartitionRegistration) -> tuple[int, ...]:
        """The replicas that are offline, as Kafka counts them: out of reach for these clients, or on a log dir that has
        failed."""
        if not self.unreachable and not partition.directories and all(r in self.brokers for r in partition.replicas):
            return ()
        return tuple(r for r in partition.replicas if not self._is_online(r, partition))

    def _is_online(self, broker_id: int, partition: PartitionRegistration) -> bool:
        broker = self.brokers.get(broker_id)
        is_reached = broker is not None and broker_id not in self.unreachable
        return is_reached and broker is not None and broker.is_online(partition.directory_of(broker_id))


class TopicViews:
    """The views that one broker has made. On the event loop."""

    def __init__(self, broker_id: int, why_lost: WhyLost) -> None:
        self._broker_id, self._why_lost = broker_id, why_lost
        self._listeners: dict[str, ListenerView] = {}
        """The views of this node's listeners, which are few, by name."""

    def at(self, listener: str, image: MetadataImage) -> ListenerView:
        known = self._listeners.get(listener)
        if known is None or known.brokers is not image.brokers:
            known = self._listeners[listener] = ListenerView(listener, image.brokers)
        return known

    def view(self, image: MetadataImage, at: ListenerView, topic: TopicImage, *, log_dirs: bool = False) -> TopicInfo:
        """The view of a topic; with the replicas' log dirs if it asks for them."""
        config = image.topic_config(topic.name)
        known = at.views.get(topic.topic_id)
        if known is None or known.topic is not topic or known.config is not config or log_dirs:
            info = self._made(image, at, topic, config, log_dirs)
            led = tuple((TopicPartition(topic.name, n), p) for n, p in topic.partitions.items() if self._leads(p))
            known = _View(topic, config, led, info)
            if not log_dirs:
                self._keep(image, at, known)
        lost = {key.partition: why for key, p in known.led if (why := self._why_lost(key, p))}
        return _with_lost(known.info, lost, self._broker_id) if lost else known.info

    def _leads(self, partition: PartitionRegistration) -> bool:
        return partition.leader_id == self._broker_id

    def _keep(self, image: MetadataImage, at: ListenerView, view: _View) -> None:
        at.views[view.topic.topic_id] = view
        if len(at.views) > len(image.topics_by_id):
            at.views = {key: kept for key, kept in at.views.items() if key in image.topics_by_id}

    def _made(
        self, image: MetadataImage, at: ListenerView, topic: TopicImage, config: Mapping[str, str], log_dirs: bool
    ) -> TopicInfo:
        partitions = tuple(
            PartitionInfo(
                number,
                NO_LEADER if p.leader_id in at.nowhere else p.leader_id,
                p.leader_epoch,
                p.partition_epoch,
                p.replicas,
                p.isr,
                _why_offline(image, TopicPartition(topic.name, number), p, at),
                p.elr,
                p.directories if log_dirs else (),
                p.adding_replicas,
                p.removing_replicas,
                at.offline_replicas(p),
            )
            for number, p in sorted(topic.partitions.items())
        )
        return TopicInfo(topic.name, topic.topic_id, partitions, config)


def _with_lost(info: TopicInfo, lost: Mapping[int, str], broker_id: int) -> TopicInfo:
    partitions = tuple(
        replace(p, error=LeaderNotAvailableError(f"offline on its leader, broker {broker_id}: {lost[p.partition]}"))
        if p.partition in lost and p.error is None
        else p
        for p in info.partitions
    )
    return replace(info, partitions=partitions)


def _why_offline(
    image: MetadataImage, key: TopicPartition, partition: PartitionRegistration, at: ListenerView
) -> ApiError | None:
    if partition.leader_id in at.nowhere:
        return ListenerNotFoundError(
            f"{key} is led by broker {partition.leader_id}, which has no listener {at.listener}; add it to "
            "the listeners of that broker, or connect at a listener that all brokers have"
        )
    reason = offline_reason(partition, image)
    return None if reason is None else LeaderNotAvailableError(offline_text(partition, reason, image))
