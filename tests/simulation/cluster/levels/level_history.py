"""The feature levels as the committed metadata say them, and what must hold of records and snapshots (I93, I94).

Reads the bytes of the log by itself: a record of a level, and a registration that says what its broker supports, need
`metadata.version` 2, and the raise to it counts from its own record on. Not here: whose metadata are committed
(quorum_invariants.py).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from metadata.codec import UnsupportedMetadataRecordError
from metadata.image import MetadataImage
from penstock.record.reader import read_columns
from penstock.types import NO_OFFSET
from tests.simulation.cluster.durable_log import Batch, Violated
from tests.simulation.cluster.machine import Machine

METADATA_VERSION: Final = "metadata.version"
OF_LEVELS: Final = (b'"FeatureLevel"', b'"features"')
NEEDED: Final = 2


class LevelHistory:
    """The levels behind each record that changed one."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._offsets: list[int] = [NO_OFFSET]
        self._levels: list[Mapping[str, int]] = [{}]
        self.lowered_at = NO_OFFSET
        """The offset of the record that lowered `metadata.version` last."""

    @property
    def version(self) -> int:
        """The committed `metadata.version`."""
        return self._levels[-1].get(METADATA_VERSION, 1)

    def at(self, offset: int) -> Mapping[str, int]:
        """The committed levels behind the record at this offset."""
        return self._levels[bisect_right(self._offsets, offset) - 1]

    def extend(self, batches: Iterable[Batch]) -> None:
        """These batches are committed now."""
        for batch in batches:
            for offset, record in _of_levels(batch):
                self._take(offset, record)

    def _take(self, offset: int, record: Mapping[str, Any]) -> None:
        before, kind = self._levels[-1], record["type"]
        version = before.get(METADATA_VERSION, 1)
        if kind == "FeatureLevel" and record["name"] == METADATA_VERSION:
            version = max(version, record["level"])
        if version < NEEDED:
            raise Violated(f"I94: {kind} at metadata offset {offset} is above metadata.version {version}")
        if kind != "FeatureLevel":
            return
        after = {**before, record["name"]: record["level"]}
        if after[METADATA_VERSION] < NEEDED:
            after, self.lowered_at = {}, offset
        self._offsets.append(offset)
        self._levels.append(after)

    def snapshot(self, name: str, image: MetadataImage) -> None:
        """A snapshot is on the disk of this machine."""
        wanted, found = self.at(image.offset), {feature: one.level for feature, one in image.levels.items()}
        if found != wanted:
            raise Violated(
                f"I94: the snapshot of {name} at metadata offset {image.offset} has the levels {found}, and {wanted}"
                " were finalized"
            )
        saying = [broker.broker_id for broker in image.brokers.values() if broker.features]
        if saying and wanted.get(METADATA_VERSION, 1) < NEEDED:
            raise Violated(
                f"I94: the snapshot of {name} at metadata offset {image.offset} has registrations of brokers {saying}"
                f" that say levels, and metadata.version is 1"
            )

    def stopped(self) -> Iterator[str]:
        """The nodes that met a level or a record which they do not know: nobody rolls one where the levels forbid it,
        so one was raised over them."""
        for machine in self._machines:
            for error in machine.refusals:
                if isinstance(error, UnsupportedMetadataRecordError):
                    yield f"I93: {machine.name} has stopped: {error}"

    def __repr__(self) -> str:
        return f"LevelHistory({dict(self._levels[-1])} from {self._offsets[-1]})"


def _of_levels(batch: Batch) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The records that need a level, with their offsets."""
    if not any(word in batch.raw for word in OF_LEVELS):
        return
    for index, value in enumerate(read_columns(batch.raw).values):
        record = json.loads(bytes(value)) if value is not None else {}
        if record.get("type") == "FeatureLevel" or (record.get("type") == "RegisterBroker" and "features" in record):
            yield batch.base_offset + index, record
