"""I8 to I11, I32, I41 and I43, of the nodes' images: equal where their offsets are, and with what each may say.

`newest` is the image with the highest offset that any node has had. The controller answers only when its own image has
what it decided, so no leader of a partition can know of a later ISR than this image does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from broker.config.dynamic_keys import BROKER_CONFIGS
from metadata.controller.context import effective_min_isr
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage, image_records
from metadata.records import ALL_BROKERS, BROKER_RESOURCE
from metadata.registrations import PartitionKey, PartitionRegistration
from metadata.topic_config import UNCLEAN_LEADER_ELECTION
from penstock.config_keys import ConfigValue
from penstock.messages.configs import ConfigResource
from penstock.types import NO_LEADER
from tests.simulation.cluster.durable_log import Violated


class MetadataInvariants:
    """See the module."""

    def __init__(self, topic_defaults: Mapping[str, ConfigValue]) -> None:
        """`topic_defaults` are those of every node."""
        self._topic_defaults = topic_defaults
        self.newest: MetadataImage = EMPTY_IMAGE
        self._images: dict[int, tuple[str, MetadataImage]] = {}
        self._known: dict[PartitionKey, PartitionRegistration] = {}
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._ids: dict[str, list[str]] = {}
        self.forgotten: set[int] = set()
        """Brokers that an operator has unregistered since the start; those that came back too."""

    def ids_of(self, topic: str) -> list[str]:
        """The ids of every topic that ever had this name, the newest last."""
        return self._ids.get(topic, [])

    def partition(self, key: PartitionKey) -> PartitionRegistration | None:
        """As the controller has it; None where the topic is no more, or not yet."""
        topic = self.newest.topics_by_id.get(key.topic_id)
        return topic.partitions.get(key.partition) if topic is not None else None

    def may_lead(self, key: PartitionKey, broker_id: int, leader_epoch: int) -> bool:
        """True if this may be the partition's leader in that epoch, as far as any image tells; images skip epochs."""
        known = self._known.get(key)
        leader = self._leaders.get((key, leader_epoch), broker_id)
        return known is None or (leader_epoch <= known.leader_epoch and broker_id in (NO_LEADER, leader))

    def may_lose(self, topic: str) -> bool:
        """True if an operator allows its partitions leaders that lack committed records."""
        return self.newest.topic_config(topic).get(UNCLEAN_LEADER_ELECTION) == "true"

    def seen(self, name: str, image: MetadataImage) -> list[PartitionRegistration]:
        """A node has a new image: the partitions that no image had so before."""
        first, other = self._images.setdefault(image.offset, (name, image))
        if other is not image and other != image:
            raise Violated(f"I8: the images of {first} and {name} at metadata offset {image.offset} differ")
        if image.offset <= self.newest.offset:
            return []
        for topic in image.topics_by_id.values():
            self._check_numbers(name, topic, self.newest.topics_by_id.get(topic.topic_id))
        self.forgotten |= self.newest.brokers.keys() - image.brokers.keys()
        self.newest = image
        for topic in image.topics_by_id.values():
            ids = self._ids.setdefault(topic.name, [])
            if topic.topic_id not in ids:
                ids.append(topic.topic_id)
        changed = [
            partition
            for topic in image.topics_by_id.values()
            for partition in topic.partitions.values()
            if self._known.get(partition.key) != partition
        ]
        for partition in changed:
            self._changed(name, image, partition)
        self._check_replicas(name, image)
        self._check_isrs(name, image)
        self._check_elrs(name, image)
        return changed

    def _check_numbers(self, name: str, topic: TopicImage, before: TopicImage | None) -> None:
        """I41: partitions are added behind those that are there, and never removed."""
        if before is topic:
            return
        numbers, known = sorted(topic.partitions), before.partitions if before is not None else {}
        if numbers != list(range(len(numbers))) or len(numbers) < len(known):
            raise Violated(f"I41: {name}: {topic.name} had partitions {sorted(known)}, and has {numbers}")

    def _changed(self, name: str, image: MetadataImage, partition: PartitionRegistration) -> None:
        """I10; and of I11, that the ISR is part of the replicas."""
        what = f"{name}: partition {partition.partition} of {image.topic_name(partition.topic_id)}"
        before = self._known.get(partition.key)
        is_moved = before is not None and replace(before, directories=partition.directories) == partition
        if before is not None and (
            partition.leader_epoch < before.leader_epoch
            or partition.partition_epoch < before.partition_epoch + (not is_moved)
        ):
            raise Violated(f"I10: {what} goes from {before} to {partition}")
        if partition.leader_id != NO_LEADER:
            epoch = partition.leader_epoch
            leader = self._leaders.setdefault((partition.key, epoch), partition.leader_id)
            if leader != partition.leader_id:
                raise Violated(f"I10: {what}: epoch {epoch} has leaders {leader} and {partition.leader_id}")
        if not partition.isr or not set(partition.isr) <= set(partition.replicas):
            raise Violated(f"I11: {what}: the ISR {partition.isr} is not part of {partition.replicas}")
        self._known[partition.key] = partition

    def _check_replicas(self, name: str, image: MetadataImage) -> None:
        """I43: also when a broker was forgotten and no partition changed."""
        for topic in image.topics_by_id.values() if self.forgotten else ():
            for partition in topic.partitions.values():
                gone = set(partition.replicas) - image.brokers.keys()
                if gone:
                    raise Violated(
                        f"I43: {name}: {topic.name}-{partition.partition} has replicas {partition.replicas}, and"
                        f" {sorted(gone)} are not registered, at metadata offset {image.offset}"
                    )

    def _check_isrs(self, name: str, image: MetadataImage) -> None:
        """I11: also when a broker changed and no partition did."""
        fenced = {broker.broker_id for broker in image.brokers.values() if broker.fenced}
        offline = {(broker.broker_id, dead) for broker in image.brokers.values() for dead in broker.offline_log_dirs}
        if not fenced and not offline:
            return
        for topic in image.topics_by_id.values():
            for partition in topic.partitions.values():
                dead = {b for b in partition.isr if (b, partition.directory_of(b)) in offline}
                out = fenced | dead
                if partition.leader_id in dead:
                    raise Violated(
                        f"I11: {name}: partition {partition.partition} of {topic.name} is led by broker"
                        f" {partition.leader_id}, and that log dir is offline, at metadata offset {image.offset}"
                    )
                if len(partition.isr) > 1 and not out.isdisjoint(partition.isr):
                    raise Violated(
                        f"I11: {name}: partition {partition.partition} of {topic.name} has ISR {partition.isr}, and"
                        f" {sorted(out)} are fenced, or their log dir is offline, at metadata offset {image.offset}"
                    )

    def _check_elrs(self, name: str, image: MetadataImage) -> None:
        """I32: what a partition must show; partition_invariants.py has what its disks must hold."""
        for topic in image.topics_by_id.values():
            for partition in topic.partitions.values():
                if not partition.elr:
                    continue
                what = f"I32: {name}: {topic.name}-{partition.partition} has ELR {partition.elr}, and"
                if not set(partition.elr) <= set(partition.replicas).difference(partition.isr):
                    raise Violated(f"{what} ISR {partition.isr} of replicas {partition.replicas}")
                min_isr = effective_min_isr(partition, image.topic_config(topic.name), self.defaults(image))
                if partition.has_leader and len(partition.isr) >= min_isr:
                    raise Violated(f"{what} ISR {partition.isr}, which is large enough to commit")

    def defaults(self, image: MetadataImage) -> Mapping[str, ConfigValue]:
        """The values that topics inherit: those that were set for all brokers, else those that every node has in its
        file."""
        for_all = image.configs.get(ConfigResource(BROKER_RESOURCE, ALL_BROKERS), {})
        return {**self._topic_defaults, **BROKER_CONFIGS.in_force(for_all, ALL_BROKERS)}

    def snapshot(self, name: str, image: MetadataImage) -> None:
        """I9: what a snapshot on a disk says is what every node has at that offset."""
        first, other = self._images.setdefault(image.offset, (name, image))
        if other is not image and other != image:
            raise Violated(
                f"I9: the snapshot of {name} at metadata offset {image.offset} differs from the image of {first}"
            )

    def at_end(self, name: str, image: MetadataImage) -> None:
        """I9: the records of a snapshot make the image again."""
        delta = MetadataDelta(EMPTY_IMAGE)
        for record in image_records(image):
            delta.replay(record)
        if delta.apply(image.offset, image.epoch) != image:
            raise Violated(f"I9: a snapshot of {name} at metadata offset {image.offset} makes another image")
