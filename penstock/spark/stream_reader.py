"""spark.readStream.format("penstock"): tells Spark how far a stream may go, plans each micro-batch, reads a task.

Spark keeps the offsets; this module keeps no state that must outlive its process. One offset is not in Spark's log: the
initial one. Spark asks for it twice in the first micro-batch, and again after a crash in that, when `latest` is
another place. So it is remembered here, and the end of the first micro-batch says where each partition begins
(positions.py). A query that does not begin at `earliest` has its first micro-batch at once, even without rows: so
Spark's log has its place from its start on. `stop()` is not always called (Spark kills the process), so nothing depends
on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.spark.batch_reader import client_for, read_task, tasks_for
from penstock.spark.boundary import BoundaryKind
from penstock.spark.groups.group_commits import GroupCommits
from penstock.spark.kafka_options import warn_once
from penstock.spark.log_client import LogClient
from penstock.spark.micro_batch import Limits, advance, newest_end, planned_ranges, present_end
from penstock.spark.options import SourceOptions
from penstock.spark.plain_errors import sentence_first
from penstock.spark.positions import SourcePositions, StreamPosition, positions_of
from penstock.spark.topics import boundary_offsets, subscribed

InTask = Callable[[Iterator[Any]], Iterator[Any]]
"""A task's own work on its Arrow batches; Spark gets what it returns. Picklable."""


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads topics as an endless table."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        clients: Callable[[SourceOptions], LogClient] | None = None,
        in_task: InTask | None = None,
    ) -> None:
        self._options = options
        self._schema = schema
        self._clients = clients
        self._in_task = in_task
        self._initial: SourcePositions | None = None
        self._target: SourcePositions | None = None
        self._seen: SourcePositions | None = None
        self._commits = GroupCommits(options.commit_to_group)

    # -- on the driver -------------------------------------------------------------------------------------------------

    @sentence_first()
    def initialOffset(self) -> dict[str, Any]:
        """The start of a query without a checkpoint; the same answer however often Spark asks."""
        if self._initial is None:
            self._initial = self._find_initial()
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit by maxOffsetsPerTrigger, or else by maxBytesPerTrigger: Spark knows no limit of both kinds."""
        if rows := self._options.max_offsets_per_trigger:
            return ReadMaxRows(rows)
        size_bytes = self._options.max_bytes_per_trigger
        return ReadMaxBytes(size_bytes) if size_bytes else ReadAllAvailable()

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes where the query ends: at the present end."""
        self._target = self._latest()

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far this micro-batch goes; `start` itself when there is nothing new."""
        warn_once(self._options.without_effect)
        begin = SourcePositions.from_json(start)
        self._commits.note_done(self._client(), begin)
        latest = newest_end(self._client(), self._options.subscription, begin, self._target)
        self._seen = latest
        self._target = latest if self._target is not None else None
        end = advance(self._client(), begin, latest, self._limits(limit))
        is_pinned = not begin.initial or self._options.starting.kind is BoundaryKind.EARLIEST
        return start if is_pinned and end.same_places(begin) else end.to_json()

    def _limits(self, limit: ReadLimit) -> Limits:
        """Both limits of the options, unless Spark wants everything (Trigger.Once)."""
        options = self._options
        if isinstance(limit, ReadAllAvailable):
            return Limits(options.subscription, options.fail_on_data_loss)
        return Limits(
            options.subscription,
            options.fail_on_data_loss,
            limit.max_rows if isinstance(limit, ReadMaxRows) else 0,
            limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.max_bytes_per_trigger,
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end that was last seen, for the query's progress."""
        return self._seen.to_json() if self._seen is not None else None

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch, from the two offsets alone: after a restart Spark asks this first."""
        options = self._options
        begin, until = SourcePositions.from_json(start), SourcePositions.from_json(end)
        spans = planned_ranges(self._client(), begin, until, options.fail_on_data_loss)
        return tasks_for(self._client(), spans, options)

    def commit(self, end: dict[str, Any]) -> None:
        """The rows before are processed. Spark's checkpoint has the offsets; a group is told for who looks at it."""
        self._commits.note_done(self._client(), SourcePositions.from_json(end))

    def stop(self) -> None:
        """Does nothing: the process's client stays open for the next query (log_client.py)."""

    # -- on an executor ------------------------------------------------------------------------------------------------

    @sentence_first()
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task's ranges, as Arrow batches."""
        if partition.value is None:
            return iter(())
        rows = read_task(self._client(), partition.value, self._options, self._schema)
        return rows if self._in_task is None else self._in_task(rows)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _client(self) -> LogClient:
        return client_for(self._options, self._clients)

    def _latest(self) -> SourcePositions:
        return present_end(self._client(), self._options.subscription)

    def _find_initial(self) -> SourcePositions:
        client = self._client()
        found = subscribed(client, self._options.subscription, must_exist=True)
        if self._target is not None and self._options.starting.kind is BoundaryKind.LATEST:
            return replace(self._target, initial=True)  # by now the end may be beyond the target
        offsets = boundary_offsets(client, self._options.starting, found)
        at = {tp: StreamPosition(place.offset, place.leader_epoch) for tp, place in offsets.items()}
        return replace(positions_of(at, found.topic_ids), initial=True, metadata=client.seen())

    def __repr__(self) -> str:
        return f"PenstockStreamReader({self._options.subscription}, target={self._target})"


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Stands for a reader whose options are wrong, and tells so when it is first used.

    An error while the reader is made would be lost: Spark's runner then stops the reader that it does not have, and
    tells of that instead (`finally: reader.stop()` in its python_streaming_source_runner).
    """

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    @sentence_first()
    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        raise self._error

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self._error

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        raise self._error

    @sentence_first()
    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error
