"""Promises about the coordinators of transactions by the metadata: the broker that leads the id's partition."""

from __future__ import annotations

import pytest

from broker.coordination.partition_of import partition_of
from broker.transactions.verification.image_coordinators import ImageCoordinators
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from metadata.records import PartitionRecord, TopicRecord
from penstock.errors import (
    CoordinatorNotAvailableError,
)
from tests.support.two_log_dirs import image_of


def image(leaders: list[int]) -> MetadataImage:
    topic = TopicRecord(TRANSACTION_STATE, "state-id")
    return image_of(
        topic, *(PartitionRecord("state-id", n, (1, 2, 3), (1, 2, 3), leader) for n, leader in enumerate(leaders))
    )


def test_the_coordinator_is_the_leader_of_the_ids_partition() -> None:
    found = ImageCoordinators(lambda: image([3, 1, 2]))
    for name in ("a", "b", "c", "mine"):
        number = partition_of(name, 3)
        assert found.coordinator_of(name) == (number, [3, 1, 2][number])


@pytest.mark.parametrize("known", [EMPTY_IMAGE, image([-1])])
def test_there_may_be_none(known: MetadataImage) -> None:
    with pytest.raises(CoordinatorNotAvailableError):
        ImageCoordinators(lambda: known).coordinator_of("mine")
