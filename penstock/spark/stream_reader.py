"""spark.readStream.format("penstock"): tells Spark how far a stream may go, plans each micro-batch, reads one range.

Spark keeps the offsets; this module keeps no state that must outlive its process. The one danger is a start at
`latest`. If a query crashes before its first micro-batch was committed, Spark asks for the initial offset again, and
its own log does not have the first answer. So the answer is remembered here, and written to `startingOffsetsFile` if
the user names one; without it a warning says which records may be missed. `stop()` is not always called (Spark kills
the process), so nothing depends on it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.spark.batch_reader import client_for, read_partition
from penstock.spark.boundary import BoundaryKind
from penstock.spark.log_client import LogClient
from penstock.spark.micro_batch import Limits, advance, planned_ranges
from penstock.spark.options import SourceOptions
from penstock.spark.planning import split
from penstock.spark.positions import Position, SourcePositions, positions_of
from penstock.spark.topics import boundary_offsets, latest_positions, subscribed

_log = logging.getLogger(__name__)


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads topics as an endless table."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        clients: Callable[[SourceOptions], LogClient] | None = None,
    ) -> None:
        self._options = options
        self._schema = schema
        self._clients = clients
        self._initial: SourcePositions | None = None
        self._target: SourcePositions | None = None
        self._seen: SourcePositions | None = None

    # -- on the driver -------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins; the same answer however often Spark asks."""
        if self._initial is None:
            self._initial = self._pinned_initial()
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger."""
        limit = self._options.max_offsets_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes where the query ends: at the present end."""
        self._target = self._latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far this micro-batch goes; `start` itself when there is nothing new."""
        begin = SourcePositions.from_json(start)
        latest = self._target or self._latest()
        self._seen = latest
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        limits = Limits(self._options.subscription, max_rows, self._options.fail_on_data_loss)
        end = advance(self._client(), begin, latest, limits)
        return start if end.same_places(begin) else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: the end that was last seen."""
        return self._seen.to_json() if self._seen is not None else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch, from the two offsets alone: after a restart Spark asks this first."""
        options = self._options
        begin, until = SourcePositions.from_json(start), SourcePositions.from_json(end)
        spans = planned_ranges(self._client(), begin, until, options.fail_on_data_loss)
        pieces = split(spans, options.min_partitions, options.max_records_per_partition)
        return [InputPartition(span) for span in pieces]

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the offsets are in Spark's checkpoint."""

    def stop(self) -> None:
        """Does nothing: the process's client stays open for the next query (log_client.py)."""

    # -- on an executor ------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range, as Arrow batches."""
        if partition.value is None:
            return iter(())
        return read_partition(self._client(), partition.value, self._options, self._schema)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _client(self) -> LogClient:
        return client_for(self._options, self._clients)

    def _latest(self) -> SourcePositions:
        client = self._client()
        return latest_positions(client, subscribed(client, self._options.subscription, must_exist=False))

    def _pinned_initial(self) -> SourcePositions:
        path = self._options.starting_offsets_file
        if path and os.path.exists(path):
            return _read_pin(Path(path))
        client = self._client()
        found = subscribed(client, self._options.subscription, must_exist=True)
        offsets = boundary_offsets(client, self._options.starting, found)
        positions = positions_of(
            {tp: Position(at.offset, at.leader_epoch) for tp, at in offsets.items()}, found.topic_ids
        )
        if path:
            _write_pin(Path(path), positions)
        elif self._options.starting.kind is BoundaryKind.LATEST:
            _log.warning(
                "startingOffsets=latest: if this query crashes in its very first micro-batch, its restart begins at "
                "the end of that time and misses the records in between; set startingOffsetsFile to keep the place, "
                "or begin at earliest"
            )
        return positions

    def __repr__(self) -> str:
        return f"PenstockStreamReader({self._options.subscription}, target={self._target})"


def _read_pin(path: Path) -> SourcePositions:
    try:
        return SourcePositions.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"option startingOffsetsFile={str(path)!r} cannot be read: {error}") from error


def _write_pin(path: Path, positions: SourcePositions) -> None:
    """On disk before Spark hears of it, because Spark may crash at once."""
    waiting = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(waiting, "w", encoding="utf-8") as file:
            json.dump(positions.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(waiting, path)
    except OSError as error:
        raise ConfigError(f"option startingOffsetsFile={str(path)!r} cannot be written: {error}") from error
