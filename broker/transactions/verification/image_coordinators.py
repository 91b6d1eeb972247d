"""Finds the coordinators of transactions by the metadata. Unlike a client that looks for one, it has no topic made."""

from __future__ import annotations

from collections.abc import Callable

from broker.transactions.transactional_ids import partition_of_transactional_id
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from penstock.errors import CoordinatorNotAvailableError
from penstock.types import NO_LEADER


class ImageCoordinators:
    """Finds them by the metadata that this broker has."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        """The partition of the transactions' topic, and the broker that leads it; CoordinatorNotAvailableError if the
        partition has no leader now, or the topic does not exist."""
        image = self._image()
        topic = image.topic(TRANSACTION_STATE)
        if topic is None:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE} is not there: no transaction can have begun")
        number = partition_of_transactional_id(transactional_id, len(topic.partitions))
        state = image.partition(TRANSACTION_STATE, number)
        if state is None or state.leader_id == NO_LEADER:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE}-{number} has no leader now")
        return number, state.leader_id
