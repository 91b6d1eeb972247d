"""The few calls to a cluster that Spark needs: topics, offsets, and the raw batches of a range.

`LogClient` is their protocol, so that planning and reading are tested against a fake; `PenstockLogClient` implements it
with `penstock.client`. `log_client`, `producer` and `atomic_batches` return one object per process and set of options:
Spark keeps its Python workers, so connections outlive tasks, and nothing with a socket is ever pickled. The client,
which loads gRPC, is imported here inside functions: a worker is forked from a daemon that must not have loaded gRPC
(grpc/grpc#13873, #31885).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.spark.kafka_options import options_of
from penstock.spark.planning import OffsetAt, PlannedRange, PlannedTopic
from penstock.spark.positions import SourcePositions
from penstock.types import EpochEndOffset, MetadataOffset, TopicPartition

if TYPE_CHECKING:
    from penstock.client.cluster.cluster import ClusterClient
    from penstock.client.consumer.consumer import Consumer
    from penstock.client.environment import Background
    from penstock.client.producer.producer import Producer
    from penstock.client.producer.transactions.atomic_batches import AtomicBatches
    from penstock.spark.log_questions import LogQuestions

FETCH_BYTES = 2 * 1024 * 1024
"""About 16,000 records of 100 bytes: one Arrow batch of the size that Spark takes best."""
CLIENT_ID = "penstock-spark"
"""The name under which a cluster's metrics show what Spark does, if the option `kafka.client.id` gives no other."""

READ_COMMITTED = "read_committed"
"""Records of aborted transactions are no rows, unless `kafka.isolation.level` says so; a table ends at the last stable
offset, so that a range which was planned once has the same rows when it is read again."""

RACK_VARIABLE = "PENSTOCK_CLIENT_RACK"
"""The rack of this machine's executors, if the option `kafka.client.rack` names none for all of them."""

SAMPLE_BYTES = 64 * 1024
"""Some hundred records of 100 bytes; a fetch gives one whole batch, however large."""

T = TypeVar("T")


class LogClient(Protocol):
    """The calls for reading. Each blocks, is bounded by the client's time limits, and raises PenstockError."""

    def list_topics(self) -> list[str]: ...

    def describe(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        """The topics that exist."""
        ...

    def list_offsets(self, at_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        """The offset at each time or sentinel of penstock.types."""
        ...

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks of logs that have open transactions, whatever the client's isolation level."""
        ...

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
        """The offsets that a group has committed; partitions without one are left out."""
        ...

    def commit(self, group_id: str, positions: SourcePositions) -> None:
        """Commits them to a group, which has no members."""
        ...

    def remember(self, positions: SourcePositions) -> None:
        """No answer counts from now on that is older than these positions."""
        ...

    def seen(self) -> MetadataOffset:
        """How far the newest answer had heard of the cluster's metadata."""
        ...

    def newest_topics(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        """The answer of `describe` by the broker that knows the newest metadata, for what seems deleted."""
        ...

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEndOffset]:
        """The end of the largest epoch that is not above the given one, in each leader's log."""
        ...

    def fetch(self, span: PlannedRange) -> Iterator[RawBuffer]:
        """Whole batches that cover the range; each may begin below its own start offset and end above its range."""
        ...

    def sample(self, tp: TopicPartition, offset: int, topic_id: str) -> RawBuffer:
        """A small piece of the log from this offset on."""
        ...


class PenstockLogClient:
    """LogClient over gRPC; each part is made at its first use. One thread at a time."""

    def __init__(self, bootstrap: str, options: Mapping[str, Any]) -> None:
        self._bootstrap = bootstrap
        self._options = {"client_id": CLIENT_ID, "isolation_level": READ_COMMITTED, **options}
        self._cluster: ClusterClient | None = None
        self._background: Background | None = None
        self._questions: LogQuestions | None = None
        self._consumer: Consumer | None = None
        self._sampler: Consumer | None = None

    def list_topics(self) -> list[str]:
        return self._ask(lambda questions: questions.list_topics())

    def describe(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        return self._ask(lambda questions: questions.describe(topics))

    def newest_topics(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        return self._ask(lambda questions: questions.newest_topics(topics))

    def list_offsets(self, at_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        return self._ask(lambda questions: questions.list_offsets(at_ms))

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ask(lambda questions: questions.high_watermarks(partitions))

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEndOffset]:
        return self._ask(lambda questions: questions.epoch_ends(epochs, topic_ids))

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
        return self._ask(lambda questions: questions.committed(group_id, partitions))

    def commit(self, group_id: str, positions: SourcePositions) -> None:
        self._ask(lambda questions: questions.commit(group_id, positions))

    def remember(self, positions: SourcePositions) -> None:
        self._ask(lambda questions: questions.remember(positions))

    def seen(self) -> MetadataOffset:
        return self._ask(lambda questions: questions.seen())

    def fetch(self, span: PlannedRange) -> Iterator[RawBuffer]:
        return self._get_consumer().fetch_raw(
            span.topic, span.partition, span.lo, span.hi, span.topic_id, span.leader_epoch, span.seen
        )

    def sample(self, tp: TopicPartition, offset: int, topic_id: str) -> RawBuffer:
        if self._sampler is None:
            self._sampler = self._new_consumer({**self._options, "max_partition_fetch_bytes": SAMPLE_BYTES})
        piece, *_ = self._sampler.fetch_raw(*tp, offset, offset + 1, topic_id)
        return piece

    def _ask(self, question: Callable[[LogQuestions], Coroutine[Any, Any, T]]) -> T:
        if self._questions is None or self._background is None:
            from penstock.client.cluster.cluster import ClusterClient
            from penstock.client.environment import given_or_system
            from penstock.client.options.config import AdminConfig, admin_config
            from penstock.client.options.options import parse_bootstrap
            from penstock.spark.log_questions import LogQuestions

            environment = given_or_system(None)
            config = admin_config(options_of(AdminConfig, self._options))
            bootstrap = parse_bootstrap(self._bootstrap, "Spark source")
            patience_ms = min(config.bootstrap_timeout_ms, config.default_api_timeout_ms)
            config = replace(config, bootstrap_timeout_ms=patience_ms)
            self._cluster = ClusterClient(bootstrap, config, environment)
            is_committed = self._options["isolation_level"] == READ_COMMITTED
            self._questions = LogQuestions(self._cluster, config.default_api_timeout_ms, read_committed=is_committed)
            self._background = environment.background()
        return self._background.run(question(self._questions))

    def _get_consumer(self) -> Consumer:
        if self._consumer is None:
            self._consumer = self._new_consumer({"max_partition_fetch_bytes": FETCH_BYTES, **self._options})
        return self._consumer

    def _new_consumer(self, options: dict[str, Any]) -> Consumer:
        from penstock.client.consumer.consumer import Consumer
        from penstock.client.options.config import ConsumerConfig

        options = {"client_rack": os.environ.get(RACK_VARIABLE, ""), **options}
        return Consumer(self._bootstrap, **options_of(ConsumerConfig, options))

    def close(self) -> None:
        """Closes what was opened; the process's shared client is never closed, a private one should be."""
        if self._cluster is not None and self._background is not None:
            self._background.run(self._cluster.close())
        for opened in (self._consumer, self._sampler):
            if opened is not None:
                opened.close()
        self._cluster = self._background = self._questions = self._consumer = self._sampler = None

    def __enter__(self) -> PenstockLogClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PenstockLogClient({self._bootstrap})"


_Key = tuple[int, str, str, tuple[tuple[str, Any], ...]]
_open: dict[_Key, Any] = {}
_opening = threading.Lock()


def log_client(bootstrap: str, options: Mapping[str, Any]) -> LogClient:
    """This process's client for reading from these brokers with these options."""
    return _cached("read", bootstrap, options, lambda: PenstockLogClient(bootstrap, options))


def producer(bootstrap: str, options: Mapping[str, Any]) -> Producer:
    """This process's producer for these brokers with these options; always acks=all."""

    def make() -> Producer:
        from penstock.client.producer.producer import Producer

        return Producer(bootstrap, acks="all", **{"client_id": CLIENT_ID, **options})

    return _cached("write", bootstrap, options, make)


def atomic_batches(bootstrap: str, options: Mapping[str, Any]) -> AtomicBatches:
    """This process's atomic batches on these brokers; each writer of one has a producer of its own."""

    def make() -> AtomicBatches:
        from penstock.client.producer.transactions.atomic_batches import AtomicBatches

        return AtomicBatches(bootstrap, **{"client_id": CLIENT_ID, **options})

    return _cached("atomic", bootstrap, options, make)


def _cached(role: str, bootstrap: str, options: Mapping[str, Any], make: Callable[[], T]) -> T:
    """The process id is part of the key, so a forked process never uses its parent's client."""
    key = (os.getpid(), role, bootstrap, tuple(sorted(options.items())))
    with _opening:
        found: T | None = _open.get(key)
        if found is None:
            found = _open[key] = make()
        return found
