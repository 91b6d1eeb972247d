"""The clients with which the honest one speaks to a door: Penstock's own, or librdkafka. Idempotent, with acks=all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka
from confluent_kafka import KafkaException

from penstock import Consumer, Producer, TopicPartition
from penstock.client.producer.future import RecordFuture
from penstock.errors import PenstockError
from tests.fuzz_live.hostile import HONEST_TOPIC

PARTITIONS: Final = 3
CLOSE_TIMEOUT_S: Final = 150.0
ASK_TIMEOUT_S: Final = 30.0
LINGER_MS: Final = 5
READ_MAX: Final = 500


class Acked(NamedTuple):
    """The end of one record: where it is, or why it failed."""

    partition: int = -1
    offset: int = -1
    error: str | None = None


class ClientError(Exception):
    """A client told of an error. What it does goes on."""


class Reader(Protocol):
    """Reads all partitions from their beginnings."""

    def poll(self) -> Iterable[tuple[int, int, bytes | None]]:
        """Partition, offset and value of what has come; ClientError."""
        ...

    def position(self, partition: int) -> int: ...

    def close(self) -> None: ...


class Clients(Protocol):
    """One producer, and as many readers as are asked for."""

    def send(self, partition: int, value: bytes, done: Callable[[Acked], None]) -> None:
        """ClientError if it cannot be sent; `done` may be called in any thread."""
        ...

    def poll(self) -> None:
        """Called all the time: answers may be told in it."""
        ...

    def close(self) -> int:
        """When all is acked or has failed. How many records may be there twice."""
        ...

    def ends(self) -> dict[int, int]: ...

    def reader(self) -> Reader: ...


class PenstockClients:
    """By gRPC."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer(bootstrap, acks="all", linger_ms=LINGER_MS)

    def send(self, partition: int, value: bytes, done: Callable[[Acked], None]) -> None:
        def answered(future: RecordFuture) -> None:
            error = future.exception(0)
            if error is not None:
                return done(Acked(error=f"{type(error).__name__}: {error}"))
            metadata = future.result(0)
            done(Acked(metadata.partition, metadata.offset))

        try:
            future = self._producer.send(HONEST_TOPIC, value, partition=partition)
        except PenstockError as error:
            raise ClientError(f"{type(error).__name__}: {error}") from error
        future.add_done_callback(answered)

    def poll(self) -> None:
        """Its own thread tells."""

    def close(self) -> int:
        self._producer.close(CLOSE_TIMEOUT_S)
        return self._producer.statistics().possible_duplicates

    def ends(self) -> dict[int, int]:
        with Consumer(self._bootstrap) as consumer:
            partitions = [TopicPartition(HONEST_TOPIC, number) for number in range(PARTITIONS)]
            return {at.partition: end for at, end in consumer.end_offsets(partitions).items()}

    def reader(self) -> Reader:
        return _PenstockReader(self._bootstrap)


class _PenstockReader:
    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(bootstrap, auto_offset_reset="none")
        partitions = [TopicPartition(HONEST_TOPIC, number) for number in range(PARTITIONS)]
        self._consumer.assign(partitions)
        for at in partitions:
            self._consumer.seek(at, 0)

    def poll(self) -> Iterable[tuple[int, int, bytes | None]]:
        try:
            return [(found.partition, found.offset, found.value) for found in self._consumer.poll(timeout_ms=100)]
        except PenstockError as error:
            raise ClientError(f"{type(error).__name__}: {error}") from error

    def position(self, partition: int) -> int:
        return self._consumer.position(TopicPartition(HONEST_TOPIC, partition))

    def close(self) -> None:
        self._consumer.close()


class KafkaClients:
    """By Kafka's protocol: librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        how = {"acks": "all", "enable.idempotence": True, "linger.ms": LINGER_MS}
        self._producer = confluent_kafka.Producer({**self._common, **how})

    def send(self, partition: int, value: bytes, done: Callable[[Acked], None]) -> None:
        def answered(error: Any, message: Any) -> None:
            done(Acked(error=str(error)) if error is not None else Acked(message.partition(), message.offset()))

        try:
            self._producer.produce(HONEST_TOPIC, value, partition=partition, on_delivery=answered)
        except (KafkaException, BufferError) as error:
            raise ClientError(str(error)) from error

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> int:
        """It is idempotent: nothing may be there twice."""
        self._producer.flush(CLOSE_TIMEOUT_S)
        return 0

    def ends(self) -> dict[int, int]:
        consumer = confluent_kafka.Consumer({**self._common, "group.id": "honest"})
        try:
            asked = [confluent_kafka.TopicPartition(HONEST_TOPIC, number) for number in range(PARTITIONS)]
            return {at.partition: consumer.get_watermark_offsets(at, ASK_TIMEOUT_S)[1] for at in asked}
        finally:
            consumer.close()

    def reader(self) -> Reader:
        return _KafkaReader(self._common)


class _KafkaReader:
    def __init__(self, common: dict[str, Any]) -> None:
        how = {"group.id": "honest", "enable.auto.commit": False, "auto.offset.reset": "error"}
        self._consumer = confluent_kafka.Consumer({**common, **how})
        self._positions = [0] * PARTITIONS
        self._error: str | None = None
        self._consumer.assign([confluent_kafka.TopicPartition(HONEST_TOPIC, n, 0) for n in range(PARTITIONS)])

    def poll(self) -> Iterable[tuple[int, int, bytes | None]]:
        if self._error is not None:
            error, self._error = self._error, None
            raise ClientError(error)
        records = []
        for message in self._consumer.consume(READ_MAX, 0.1):
            error = message.error()
            if error is not None:  # among records, which come before it
                self._error = str(error)
                continue
            records.append((message.partition(), message.offset(), message.value()))
            self._positions[message.partition()] = message.offset() + 1
        return records

    def position(self, partition: int) -> int:
        return self._positions[partition]

    def close(self) -> None:
        self._consumer.close()


CLIENTS: Final[dict[str, Callable[[str], Clients]]] = {"grpc": PenstockClients, "kafka": KafkaClients}
"""By door."""
