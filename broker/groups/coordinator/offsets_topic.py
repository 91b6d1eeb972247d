"""The topic `__consumer_offsets`: who coordinates a group by it, and its making when it is needed for the first time.

Any request that needs it and does not find it asks for it; one call to the controller is under way at a time, and the
controller makes it once, whoever asks. Clients are told to ask again meanwhile, as by Kafka. A topic that is deleted is
made again in the same way. Not here: what the controller makes of it (metadata/controller/topics/internal_topics.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from broker.call_queue import CallQueue
from broker.groups.coordinator.partition_of import check_group_id, partition_of
from metadata.image import MetadataImage, TopicImage
from metadata.internal_topics import CONSUMER_OFFSETS
from penstock.backoff import Backoff
from penstock.errors import ApiError, CoordinatorNotAvailableError
from penstock.messages.groups.coordinators import FoundCoordinator
from penstock.messages.topics import CreateInternalTopicRequest, CreateInternalTopicResponse
from penstock.types import NO_LEADER

_log = logging.getLogger(__name__)

RETRY_MS = 100
RETRY_MS_MAX = 5_000


class OffsetsTopic:
    """One per broker, on the event loop."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        wanted: Callable[[], CreateInternalTopicRequest],
        call: Callable[[Any], Awaitable[CreateInternalTopicResponse]],
        random: Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`wanted` is the topic as this broker's configuration has it, asked for by this broker as it is registered."""
        self._image, self._wanted = image, wanted
        self._is_needed = False
        self._failure = ""
        self._calls = CallQueue("groups-topic", self, call, Backoff(RETRY_MS, RETRY_MS_MAX, random), on_fatal)

    def start(self) -> None:
        self._calls.start()

    async def stop(self) -> None:
        await self._calls.stop()

    @property
    def topic(self) -> TopicImage | None:
        return self._image().topic(CONSUMER_OFFSETS)

    def partition_of(self, group_id: str) -> int:
        """The partition of the group; InvalidGroupIdError for an id that no group can have, and
        CoordinatorNotAvailableError while there is no topic: it is being made then."""
        check_group_id(group_id)
        topic = self.topic
        if topic is not None:
            return partition_of(group_id, len(topic.partitions))
        self._is_needed = True
        self._calls.wake()
        why = f", but: {self._failure}" if self._failure else "; ask again"
        raise CoordinatorNotAvailableError(f"{CONSUMER_OFFSETS} is being made{why}")

    def coordinator_of(self, group_id: str) -> FoundCoordinator:
        """The broker that leads the group's partition, or why there is none."""
        try:
            number = self.partition_of(group_id)
        except ApiError as error:
            return FoundCoordinator(group_id, error=error)
        image = self._image()
        state = image.partition(CONSUMER_OFFSETS, number)
        if state is None or state.leader_id == NO_LEADER or state.leader_id not in image.brokers:
            why = f"{CONSUMER_OFFSETS}-{number} has no leader now; ask again"
            return FoundCoordinator(group_id, error=CoordinatorNotAvailableError(why))
        return FoundCoordinator(group_id, state.leader_id)

    def next_request(self) -> CreateInternalTopicRequest | None:
        return self._wanted() if self._is_needed and self.topic is None else None

    def answered(self, answer: CreateInternalTopicResponse, attempt: int) -> bool:
        self._is_needed, self._failure = False, ""
        _log.info("%s is there now", CONSUMER_OFFSETS)
        return True

    def failed(self, error: ApiError, attempt: int) -> None:
        """It is asked for again when a request needs it the next time."""
        if str(error) != self._failure:
            _log.warning("%s was not made: %s", CONSUMER_OFFSETS, error)
        self._is_needed, self._failure = False, str(error)

    def __repr__(self) -> str:
        return f"OffsetsTopic({'there' if self.topic is not None else 'missing'})"
