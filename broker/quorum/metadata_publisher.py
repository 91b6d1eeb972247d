"""Carries each new image to the replicas of this broker: the partitions that it leads, follows, and no longer hosts.

It handles only the partitions in the delta. With the first image after the broker has caught up, it handles all of
them, and checks the directories on disk. Until then it notes which of the topics that are here a record has deleted:
their logs are deleted now, as they would have been had the node run. Others that the metadata does not know are set
aside as stray. They are never deleted, because data is deleted by a committed record, not because a topic is missing. A
log whose topic a snapshot of the metadata lacks is set aside, too. The topic may have been deleted before; but after a
quorum was rebuilt by hand, it may be one that only the lost voters had heard of.

Not here: how the replicas of a topic get new settings without a stall of the event loop (reconfiguration.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from broker.config.node_config import NodeConfig
from broker.quorum.reconfiguration import Reconfiguration
from broker.replication.hosting.assignment import Assignment, TopicSettings
from broker.replication.hosting.replica_assignments import ReplicaAssignments
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from metadata.records import TOPIC_RESOURCE
from metadata.topic_config import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, effective_topic_config
from penstock.config_keys import ConfigValue
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.log_config import FlushPolicy, LogConfig
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)


class MetadataPublisher:
    """Subscribes to the loader. Does nothing until `caught_up` is called once."""

    def __init__(
        self,
        replicas: ReplicaAssignments,
        log_manager: LogManager,
        defaults: Mapping[str, ConfigValue],
        now_ms: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`on_fatal` is told of an error for which no caller waits."""
        self._replicas = replicas
        self._log_manager = log_manager
        self._defaults = defaults
        self._image: MetadataImage | None = None
        """The image whose roles were taken last; None before `caught_up`."""
        self._here = frozenset(log.topic_id for log in log_manager.logs() if log.topic_id)
        self._deleted_meanwhile: set[str] = set()
        """Topics with a log here that a record has deleted, before `caught_up`."""
        self.reconfiguration = Reconfiguration(self._reconfigured, now_ms, on_fatal)

    def caught_up(self, image: MetadataImage) -> None:
        """The image is recent enough to act on: take the roles in it, and set stray directories aside."""
        self._image = image
        self._brokers_changed(image)
        self._set_strays_aside(image)  # BEFORE roles are taken: a stray may have the name of a topic that was made anew
        self._forget_vanished(image)
        for topic in image.topics_by_id.values():
            self._apply_topic(image, topic, topic.partitions)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Gives changed partitions their roles, and removes those that are gone; before `caught_up` it only notes
        deletions."""
        if self._image is None:
            self._deleted_meanwhile |= self._here & delta.removed_topic_ids
            return
        self._image = image
        if delta.changed_brokers:
            self._brokers_changed(image)
        for topic_id in delta.deleted_topic_ids:
            self._delete_topic(delta.image.topics_by_id[topic_id], is_absent=delta.is_of_snapshot)
        reconfigured = {r.resource_name for r in delta.changed_configs if r.resource_type == TOPIC_RESOURCE}
        for topic_id, partitions in delta.changed_topics.items():
            topic = image.topics_by_id[topic_id]
            self._apply_topic(image, topic, partitions, is_snapshot=delta.is_of_snapshot)
        found = (image.topic(name) for name in sorted(reconfigured))
        self.reconfiguration.submit(topic.topic_id for topic in found if topic is not None)
        if delta.changed_brokers:
            self._replicas.revive_lost()  # AFTER all roles of this image: they may be judged by its registrations now

    def defaults_changed(self, defaults: Mapping[str, ConfigValue]) -> None:
        """The node gives its topics other values from now on, where they have none of their own."""
        before, self._defaults = self._defaults, defaults
        image = self._image
        if image is None:
            return
        changed = {key for key in before.keys() | defaults.keys() if before.get(key) != defaults.get(key)}
        concerned = {key for key, definition in TOPIC_CONFIGS.items() if definition.broker_key in changed}
        topics = image.topics_by_id.values()
        self.reconfiguration.submit(t.topic_id for t in topics if not concerned <= image.topic_config(t.name).keys())

    def _reconfigured(self, topic_id: str) -> Iterator[None]:
        """Gives one replica the topic's settings in each step. The role that is applied with them is the newest: it is
        already in force."""
        image = self._image or EMPTY_IMAGE
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return
        settings = self._settings(image, topic.name)
        for number in tuple(topic.partitions):
            image = self._image or EMPTY_IMAGE
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                return
            state = topic.partitions[number]
            if self._replicas.broker_id in state.replicas:
                assignment = Assignment(topic_id, state, settings, image.leader_hint(state))
                self._replicas.apply(TopicPartition(topic.name, number), assignment)
                yield

    def _apply_topic(
        self, image: MetadataImage, topic: TopicImage, partitions: Iterable[int], *, is_snapshot: bool = False
    ) -> None:
        settings = self._settings(image, topic.name)
        for number in partitions:
            state = topic.partitions[number]
            key = TopicPartition(topic.name, number)
            if self._replicas.broker_id in state.replicas:
                self._replicas.apply(key, Assignment(topic.topic_id, state, settings, image.leader_hint(state)))
            elif self._replicas.hosts(key):
                hint = image.leader_hint(state)
                self._replicas.remove(key, topic.topic_id, hint, is_absent=is_snapshot)

    def _delete_topic(self, topic: TopicImage, *, is_absent: bool) -> None:
        for number in topic.partitions:
            self._replicas.remove(TopicPartition(topic.name, number), topic.topic_id, is_absent=is_absent)

    def _brokers_changed(self, image: MetadataImage) -> None:
        brokers = image.brokers.values()
        self._replicas.brokers_changed(
            {broker.broker_id: broker.broker_epoch for broker in brokers},
            frozenset(broker.broker_id for broker in brokers if broker.is_active),
            {broker.broker_id: broker for broker in brokers if broker.offline_log_dirs},
        )

    def _settings(self, image: MetadataImage, name: str) -> TopicSettings:
        typed = effective_topic_config(image.topic_config(name), self._defaults)
        return topic_settings(typed)

    def _set_strays_aside(self, image: MetadataImage) -> None:
        for found in self._log_manager.logs():
            key = found.topic_partition
            if key.topic == METADATA_TOPIC:
                continue
            topic = image.topic(key.topic)
            state = topic.partitions.get(key.partition) if topic is not None else None
            known = topic is not None and topic.topic_id == found.topic_id and state is not None
            if found.topic_id in self._deleted_meanwhile:
                _log.info("%s in %s was deleted while this node did not run", key, found.directory)
                self._replicas.remove_stray(key, found.topic_id, is_deleted=True)
            elif not known or (state is not None and self._replicas.broker_id not in state.replicas):
                _log.warning("%s in %s is not in the metadata: set aside as stray", key, found.directory)
                self._replicas.remove_stray(key, found.topic_id, is_deleted=False)

    def _forget_vanished(self, image: MetadataImage) -> None:
        """A log that is gone is not needed any more where this broker has no replica of it in the metadata."""
        for key, topic_id in self._log_manager.table.vanished.ids():
            topic = image.topics_by_id.get(topic_id) if topic_id else image.topic(key.topic)
            state = topic.partitions.get(key.partition) if topic is not None else None
            if state is None or self._replicas.broker_id not in state.replicas:
                self._log_manager.table.vanished.pop(key, topic_id)


def topic_settings(typed: Mapping[str, ConfigValue]) -> TopicSettings:
    """A topic's typed configuration, as storage and replication take it."""
    known: dict[str, Any] = {}
    for key, value in typed.items():
        name = key.replace(".", "_")
        if name in LogConfig.__dataclass_fields__:
            known[name] = ",".join(value) if isinstance(value, tuple) else value
    policy: FlushPolicy = "os" if typed["flush.policy"] == "os" else "fsync"
    return TopicSettings(LogConfig(**known), int(str(typed[MIN_INSYNC_REPLICAS])), policy)


def topic_defaults(config: NodeConfig) -> dict[str, ConfigValue]:
    """The values for its topics in the node's configuration, under Kafka's broker keys."""
    found: dict[str, ConfigValue] = {}
    for definition in TOPIC_CONFIGS.values():
        key = definition.broker_key
        value = getattr(config, key.replace(".", "_"), None) if key else None
        if value is not None:
            found[str(key)] = value
    return found
