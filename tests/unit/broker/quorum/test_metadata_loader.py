"""A snapshot takes the place of the records before it, and publishers see what has changed by it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.quorum.metadata_loader import MetadataLoader, UnsupportedFeatureLevelError
from metadata.codec import encode_record
from metadata.delta import MetadataDelta
from metadata.features import METADATA_VERSION, TABLE, FinalizedLevel
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import FeatureLevelRecord, PartitionRecord, Record, TopicRecord
from penstock.record.builder import build_batch


def image_of(offset: int, *names: str) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for name in names:
        for record in topic(name):
            delta.replay(record)
    return delta.apply(offset, 2)


def topic(name: str) -> tuple[Record, ...]:
    return TopicRecord(name, f"id-{name}"), PartitionRecord(f"id-{name}", 0, (1,), (1,), 1, 0, 0)


def test_publishers_are_told_what_a_snapshot_adds_and_what_is_not_in_it_any_more() -> None:
    seen: list[tuple[set[str], set[str], set[str]]] = []

    def publish(delta: MetadataDelta, image: MetadataImage) -> None:
        seen.append((set(delta.changed_topics), set(delta.deleted_topic_ids), set(image.topics_by_name)))

    loader = MetadataLoader()
    loader.subscribe(publish)
    records = [encode_record(record) for name in ("old", "both") for record in topic(name)]
    loader.on_committed(0, build_batch(records, timestamps_ms=5, base_offset=0, leader_epoch=1))
    loader.on_snapshot(image_of(40, "both", "new"))
    assert (loader.image.offset, loader.image.epoch) == (40, 2)
    assert seen[-1] == ({"id-new"}, {"id-old"}, {"both", "new"})


def test_who_waits_for_an_offset_is_woken_by_a_snapshot_that_has_it() -> None:
    async def run() -> None:
        loader = MetadataLoader()
        waiting = asyncio.create_task(loader.wait_for_offset(40))
        await asyncio.sleep(0)
        loader.on_snapshot(image_of(39, "a"))
        await asyncio.sleep(0)
        assert not waiting.done()
        loader.on_snapshot(image_of(41, "a"))
        await waiting

    asyncio.run(run())


OLD = TABLE.of_release("0.2.0")
TO_2, TO_1 = FeatureLevelRecord(METADATA_VERSION, 2, "0.3.0"), FeatureLevelRecord(METADATA_VERSION, 1, "0.2.0")


def committed(*records: Record) -> bytes:
    return build_batch([encode_record(one) for one in records], timestamps_ms=5, base_offset=0, leader_epoch=1)


@pytest.mark.parametrize("records", [(TO_2,), (TO_2, TO_1)], ids=["raised", "and lowered again"])
def test_a_node_stops_at_a_level_that_it_does_not_know_and_says_what_to_install(records: tuple[Record, ...]) -> None:
    with pytest.raises(UnsupportedFeatureLevelError, match=r"it knows metadata\.version 1: install release 0\.3\.0"):
        MetadataLoader(OLD).on_committed(0, committed(*records))
    MetadataLoader().on_committed(0, committed(*records))


def test_a_level_of_a_release_that_this_one_has_never_heard_of_is_told_by_its_record() -> None:
    record = FeatureLevelRecord("share.version", 1, "9.0.0")
    with pytest.raises(UnsupportedFeatureLevelError, match=r"does not know share\.version: install release 9\.0\.0"):
        MetadataLoader().on_committed(0, committed(TO_2, record))
    with pytest.raises(UnsupportedFeatureLevelError, match="install a newer release"):
        MetadataLoader().on_committed(0, committed(FeatureLevelRecord("share.version", 1, "")))


def test_a_snapshot_with_an_unknown_level_stops_a_node_too() -> None:
    image = replace(image_of(40, "a"), levels={METADATA_VERSION: FinalizedLevel(2, "0.3.0")})
    with pytest.raises(UnsupportedFeatureLevelError):
        MetadataLoader(OLD).on_snapshot(image)
    MetadataLoader().on_snapshot(image)
