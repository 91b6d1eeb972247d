"""Turns what the quorum has committed into images, and tells the publishers what changed.

raft driver ──committed batches──► MetadataLoader ──image, delta──► publishers (replicas, quotas and others)

Every node runs one, controller or not, over the same bytes: so the image at offset N is the same everywhere (I8). A
record that cannot be replayed stops the node: guessing would fork the metadata. So does a feature level that the node
does not support, with the release that does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from metadata.codec import UnsupportedMetadataRecordError, decode_record
from metadata.delta import MetadataDelta
from metadata.features import TABLE, FeatureTable, FinalizedLevel, release_words
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import FeatureLevelRecord
from penstock.record.batch import iter_headers
from penstock.record.reader import read_columns

Publisher = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    """Holds the current image. Given the committed log by a listener of the raft driver, on the loop, in its order."""

    def __init__(self, features: FeatureTable = TABLE) -> None:
        """`features`: the levels that this node supports."""
        self.image: MetadataImage = EMPTY_IMAGE
        self._features = features
        self.time_ms = 0
        """The wall time of the newest record in the image, if any came from the log."""
        self._publishers: list[Publisher] = []
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    def subscribe(self, publisher: Publisher) -> None:
        """Call `publisher` for every image from now on; first with everything that the present image holds."""
        self._publishers.append(publisher)

    def on_committed(self, base_offset: int, records: bytes) -> None:
        """Replay whole batches that begin at `base_offset`; one image for all of them."""
        delta = MetadataDelta(self.image)
        last_offset, epoch = self.image.offset, self.image.epoch
        for _, header in iter_headers(records):
            last_offset, epoch, self.time_ms = header.last_offset, header.leader_epoch, header.max_timestamp_ms
        for value in read_columns(records, from_offset=base_offset).values:
            if value is not None:
                record = decode_record(bytes(value))
                if isinstance(record, FeatureLevelRecord):
                    check_level(self._features, record.name, FinalizedLevel(record.level, record.since))
                delta.replay(record)
        self._publish(delta, delta.apply(last_offset, epoch))

    def on_snapshot(self, image: MetadataImage) -> None:
        """A snapshot has taken the place of the log up to its end."""
        check_levels(self._features, image)
        self._publish(MetadataDelta.between(self.image, image), image)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for publisher in self._publishers:
            publisher(delta, self.image)
        still: deque[tuple[int, asyncio.Future[None]]] = deque()
        for offset, waiter in self._waiters:
            if waiter.done():
                continue  # its task gave up
            if offset > image.offset:
                still.append((offset, waiter))
            else:
                waiter.set_result(None)
        self._waiters = still

    async def wait_for_offset(self, offset: int) -> None:
        """Returns when the image holds `offset`: what was committed there can be read here."""
        if self.image.offset < offset:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((offset, waiter))
            await waiter

    def __repr__(self) -> str:
        return f"MetadataLoader({self.image!r}, {len(self._waiters)} waiting)"


class UnsupportedFeatureLevelError(UnsupportedMetadataRecordError):
    """The cluster has a feature level that this node does not support. A node of a newer release does."""


def check_levels(features: FeatureTable, image: MetadataImage) -> None:
    """UnsupportedFeatureLevelError if a node with these features must not go on from this image."""
    for name, finalized in image.levels.items():
        check_level(features, name, finalized)


def check_level(features: FeatureTable, name: str, finalized: FinalizedLevel) -> None:
    """UnsupportedFeatureLevelError if a node with these features does not know this level."""
    lack = features.lack(name, finalized.level)
    if lack:
        raise UnsupportedFeatureLevelError(
            f"{name} is {finalized.level} in this cluster, and this node is too old, {lack}: install"
            f" {release_words(finalized.since)} here"
        )
