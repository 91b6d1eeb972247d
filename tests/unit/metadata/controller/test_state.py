"""The controller's tables, taken from an image at once."""

from __future__ import annotations

from typing import Any

from metadata.controller.state import ControllerState
from metadata.image import EMPTY_IMAGE, image_records
from metadata.replay import replay
from penstock.messages.topics import NewTopic
from tests.unit.metadata.harness import Cluster


def contents(found: Any) -> Any:
    """Every attribute of the tables, and of what stands in them, as plain values."""
    if isinstance(found, dict):
        return {key: contents(value) for key, value in found.items() if key not in ("_offset", "_loaded_offset")}
    if isinstance(found, set | frozenset | int | str | tuple | list | None):
        return found
    names = getattr(type(found), "__slots__", None)
    return contents({name: getattr(found, name) for name in names} if names else vars(found))


def test_tables_taken_from_an_image_are_those_of_its_records() -> None:
    cluster = Cluster(brokers=4)
    for name in ("a.b", "c"):
        cluster.create(name, partitions=5, replication_factor=3)
    cluster.create_all(NewTopic("d", 3, 1), principal="User:anna")
    cluster.configure("c", {"retention.ms": "7000", "min.insync.replicas": "2"})
    cluster.allocate(1)
    cluster.heartbeat(2, fence=True)
    image = cluster.controller.to_image(1)
    by_records = ControllerState(EMPTY_IMAGE)
    for record in image_records(image):
        replay(by_records, record)
    taken = ControllerState(image)
    assert contents(taken) == contents(by_records)
    assert taken.owners.partitions_of("User:anna") == 3
    assert taken.partition_count == 13 and taken.to_image(1).digest() == image.digest()
