"""A snapshot takes the place of the records before it, and publishers see what has changed by it."""

from __future__ import annotations

import asyncio

from broker.quorum.metadata_loader import MetadataLoader
from metadata.codec import encode_record
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import PartitionRecord, Record, TopicRecord
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
