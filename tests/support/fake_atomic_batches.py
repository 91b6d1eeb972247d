"""The log as the sink of Spark sees it, in memory: producers keep what they are given, atomic batches decide on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.client.producer.transactions.atomic_calls import Committed
from penstock.errors import (
    AtomicBatchVersionError,
    InvalidTxnStateError,
    PenstockError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)
from penstock.spark.writing.last_will import LastWills, Will
from penstock.spark.writing.sink import Tools
from penstock.spark.writing.sink_options import SinkOptions
from penstock.types import ProducerIdAndEpoch


class FakeFuture:
    """Acked at once, or failed."""

    def __init__(self, error: PenstockError | None) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> None:
        if self._error is not None:
            raise self._error


class FakeProducer:
    """Keeps what it is given, by topic and partition."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int | None, bytes | None, bytes | None]] = []
        self.headers: list[Any] = []
        self.error: PenstockError | None = None
        self.bulk_sends = 0
        self.partitions = 2
        self.times: list[int | None] = []

    def check(self, partition: int | None) -> None:
        """As the producer does, after it has asked the cluster."""
        if partition is not None and not 0 <= partition < self.partitions:
            raise UnknownTopicOrPartitionError(f"the topic has partitions 0 to {self.partitions - 1}, not {partition}")

    def send_many(self, topic: str, values: Any, keys: Any = None, partition: int | None = None) -> FakeFuture:
        self.check(partition)
        self.bulk_sends += 1
        keys = [None] * len(values) if keys is None else keys.to_pylist()
        self.sent += [(topic, partition, k, v) for k, v in zip(keys, values.to_pylist(), strict=True)]
        return FakeFuture(self.error)

    def send(
        self, topic: str, *, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
    ) -> FakeFuture:
        self.check(partition)
        self.sent.append((topic, partition, key, value))
        self.times.append(timestamp_ms)
        self.headers.append(headers)
        return FakeFuture(self.error)


class FakeWriter(FakeProducer):
    """A writer of an atomic batch."""

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        super().__init__()
        self.identity = identity
        self.is_closed = self.is_aborted = False
        self.abort_error: PenstockError | None = None

    def close(self) -> None:
        self.is_closed = True

    def abort(self, timeout: float | None = None) -> None:
        """As the coordinator does: the version stays open, and cannot be committed with this writer."""
        self.is_closed = True
        if self.abort_error is not None:
            raise self.abort_error
        self.is_aborted = True


class FakeWills(LastWills):
    """The wills that are left, and no other process."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Will] = []
        self.left: list[Will] = []

    def leave(self, will: Will) -> None:
        self.all.append(will)
        self.left.append(will)

    def revoke(self, will: Will) -> None:
        self.left.remove(will)


@dataclass
class _Application:
    last: int = -1
    records: int = -1
    checksum: int = 0
    run: str = ""
    fenced: set[str] = field(default_factory=set)
    open_version: int = -1
    writers: dict[tuple[int, int], FakeWriter] = field(default_factory=dict)


class FakeAtomicBatches:
    """The decisions of a coordinator; `committed` has every value that a reader of committed records sees."""

    def __init__(self) -> None:
        self.applications: dict[str, _Application] = {}
        self.committed: list[bytes | None] = []
        self.begun: list[FakeWriter] = []
        self.aborts: list[tuple[str, int, str]] = []
        self.timeouts_ms: list[int] = []
        self.one_off: set[str] = set()
        self.wills = FakeWills()
        self.is_cut_off = False
        self.error: PenstockError | None = None
        self.question_error: PenstockError | None = None

    def begin(
        self, application: str, version: int, *, timeout_ms: int, run: str, goes_back: bool, one_off: bool
    ) -> FakeWriter | None:
        known = self._live(application, run)
        self.timeouts_ms.append(timeout_ms)
        self.one_off |= {application} if one_off else set()
        if run != known.run:
            known.fenced |= {known.run} - {""}
            known.run, known.writers = run, {}
        if version == known.last:
            return None
        if version < known.last and not goes_back:
            raise AtomicBatchVersionError(f"version {version} is below the last one, {known.last}")
        if version != known.open_version:
            known.open_version, known.writers = version, {}
        writer = FakeWriter(ProducerIdAndEpoch(1000 + len(self.begun) // 2, len(self.begun) % 2))
        self.begun.append(writer)
        known.writers[tuple(writer.identity)] = writer
        return writer

    def commit(
        self,
        application: str,
        version: int,
        writers: Sequence[tuple[int, int]],
        *,
        run: str,
        records: int,
        checksum: int,
        goes_back: bool,
    ) -> Committed:
        known = self._live(application, run)
        if version == known.last:
            return Committed(True, known.records, known.checksum)
        if version < known.last and not goes_back:
            raise AtomicBatchVersionError(f"version {version} is below the last one, {known.last}")
        is_open = {identity for identity, writer in known.writers.items() if not writer.is_aborted}
        if version != known.open_version or not set(writers) <= is_open:
            raise InvalidTxnStateError("not every writer is open")
        for identity in writers:
            self.committed += [value for *_, value in known.writers[identity].sent]
        known.last, known.records, known.checksum = version, records, checksum
        known.open_version, known.writers = -1, {}
        return Committed(False, records, checksum)

    def abort(self, application: str, version: int, *, run: str) -> bool:
        known = self._live(application, run)
        self.aborts.append((application, version, run))
        if version == known.open_version:
            known.open_version, known.writers = -1, {}
        return version == known.last

    def last_version(self, application: str, timeout: float | None = None) -> int:
        if (error := self.question_error or self.error) is not None:
            raise error
        known = self.applications.get(application)
        return -1 if known is None else known.last

    def _live(self, application: str, run: str) -> _Application:
        if self.error is not None:
            raise self.error
        known = self.applications.setdefault(application, _Application())
        if run in known.fenced:
            raise ProducerFencedError(f"run {run!r} was fenced")
        return known


def tools(atomic: FakeAtomicBatches, properties: Mapping[str, str] | None = None) -> Tools:
    """A task in which Spark tells these local properties."""
    known = dict(properties or {})

    def made(_: SinkOptions) -> FakeAtomicBatches:
        return atomic

    return Tools(
        atomic_batches=made, properties=known.get, is_cut_off=lambda: atomic.is_cut_off, last_wills=atomic.wills
    )
