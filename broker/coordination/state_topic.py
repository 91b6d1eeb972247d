"""The topic of a coordinator's state: the broker that coordinates an id by it, and its creation when it is first
needed.

Any request that needs it and does not find it asks for it; one call to the controller is under way at a time, and the
controller makes it once, however many brokers ask. Clients are told to ask again meanwhile, as by Kafka. A topic that
is deleted is made again in the same way. Not here: what the controller makes of it
(metadata/controller/topics/internal_topics.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from broker.call_queue import CallQueue
from metadata.image import MetadataImage, TopicImage
from penstock.backoff import Backoff
from penstock.errors import ApiError, CoordinatorNotAvailableError
from penstock.messages.groups.coordinators import FoundCoordinator
from penstock.messages.topics import CreateInternalTopicRequest, CreateInternalTopicResponse
from penstock.types import NO_LEADER

_log = logging.getLogger(__name__)

PartitionOf = Callable[[str, int], int]
"""The partition of an id, of the given number of partitions."""
RETRY_MS = 100
RETRY_MS_MAX = 1_000


class StateTopic:
    """The topic of a coordinator's state. There is one per broker, on the event loop."""

    def __init__(
        self,
        name: str,
        check_id: Callable[[str], None],
        partition_of: PartitionOf,
        image: Callable[[], MetadataImage],
        wanted: Callable[[], CreateInternalTopicRequest],
        call: Callable[[Any], Awaitable[CreateInternalTopicResponse]],
        random: Random,
        on_fatal: Callable[[BaseException], None],
        may_lead: Callable[[int], bool],
    ) -> None:
        """`check_id` raises the error of an id that nothing can have. `wanted` is the topic as this broker's
        configuration has it, asked for by this broker as it is registered. `may_lead` is False for this broker while it
        may be deposed: nobody is sent to it then."""
        self.name, self._check_id = name, check_id
        self._image, self._wanted, self._partition_of = image, wanted, partition_of
        self._is_needed, self._may_lead = False, may_lead
        self._failure = ""
        self._calls = CallQueue(f"topic-{name}", self, call, Backoff(RETRY_MS, RETRY_MS_MAX, random), on_fatal)

    def start(self) -> None:
        self._calls.start()

    async def stop(self) -> None:
        await self._calls.stop()

    @property
    def topic(self) -> TopicImage | None:
        return self._image().topic(self.name)

    def partition_of(self, key: str) -> int:
        """The partition of an id; CoordinatorNotAvailableError while there is no topic: it is being made then."""
        self._check_id(key)
        topic = self.topic
        if topic is not None:
            return self._partition_of(key, len(topic.partitions))
        self._is_needed = True
        self._calls.wake()
        why = f", but: {self._failure}" if self._failure else "; ask again"
        raise CoordinatorNotAvailableError(f"{self.name} is being made{why}")

    def coordinator_of(self, key: str) -> FoundCoordinator:
        """The broker that leads the partition of an id, or the error that says why no broker does."""
        try:
            number = self.partition_of(key)
        except ApiError as error:
            return FoundCoordinator(key, error=error)
        image = self._image()
        state = image.partition(self.name, number)
        if state is None or state.leader_id == NO_LEADER or state.leader_id not in image.brokers:
            why = f"{self.name}-{number} has no leader now; ask again"
            return FoundCoordinator(key, error=CoordinatorNotAvailableError(why))
        if not self._may_lead(state.leader_id):
            why = f"broker {state.leader_id} led {self.name}-{number}, and may be deposed; ask another broker"
            return FoundCoordinator(key, error=CoordinatorNotAvailableError(why))
        return FoundCoordinator(key, state.leader_id)

    def next_request(self) -> CreateInternalTopicRequest | None:
        return self._wanted() if self._is_needed and self.topic is None else None

    def answered(self, answer: CreateInternalTopicResponse, attempt: int) -> bool:
        self._is_needed, self._failure = False, ""
        _log.info("%s is there now", self.name)
        return True

    def failed(self, error: ApiError, attempt: int) -> None:
        """The topic was not made. The next request that needs it asks for it again."""
        if str(error) != self._failure:
            _log.warning("%s was not made: %s", self.name, error)
        self._is_needed, self._failure = False, str(error)

    def __repr__(self) -> str:
        return f"StateTopic({self.name}, {'there' if self.topic is not None else 'missing'})"
