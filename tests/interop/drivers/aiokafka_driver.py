"""The driver of aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, admin
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.interop.drivers import login
from tests.interop.drivers.aiokafka_transactions import Transactions
from tests.interop.drivers.serve import WAIT_S, NotOffered, Progress, Shared, serve, tell


class Driver:
    """Each verb is a coroutine with clients of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap_servers": bootstrap, **login.aiokafka()}

    def __getattr__(self, verb: str) -> Any:
        work = getattr(type(self), "_take_as_member" if verb == "take" else f"_{verb}", None)
        if work is None:
            raise AttributeError(verb)
        return lambda **arguments: asyncio.run(work(self, **arguments))

    # -- admin ---------------------------------------------------------------------------------------------------------

    async def _admin(self, call: str, *arguments: Any) -> Any:
        client = AIOKafkaAdminClient(**self._common)
        await client.start()
        try:
            return await getattr(client, call)(*arguments)
        finally:
            await client.close()

    async def _create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        answer = await self._admin("create_topics", [NewTopic(topic, partitions, replicas, topic_configs=configs)])
        _require_no_error(answer.topic_errors)

    async def _describe(self, topic: str) -> dict[str, Any]:
        (found,) = await self._admin("describe_topics", [topic])
        partitions = sorted(found["partitions"], key=lambda p: p["partition"])
        return {"partitions": [{"leader": p["leader"], "replicas": p["replicas"], "isr": p["isr"]} for p in partitions]}

    async def _cluster(self) -> dict[str, Any]:
        found = await self._admin("describe_cluster")
        nodes = {node["node_id"]: f"{node['host']}:{node['port']}" for node in found["brokers"]}
        return {"cluster_id": found["cluster_id"], "nodes": nodes}

    async def _configs(self, topic: str) -> dict[str, Any]:
        (answer,) = await self._admin("describe_configs", [ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((error, message, _, _, entries),) = answer.resources
        if error:
            raise RuntimeError(message)
        return {"configs": {entry[0]: entry[1] for entry in entries}}

    async def _alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        answers = await self._admin("alter_configs", [ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
        for answer in answers:
            for resource in answer.resources:
                if resource[0]:
                    raise RuntimeError(resource[1])

    async def _add_partitions(self, topic: str, count: int) -> None:
        answer = await self._admin("create_partitions", {topic: NewPartitions(count)})
        _require_no_error(answer.topic_errors)

    async def _delete(self, topic: str) -> None:
        answer = await self._admin("delete_topics", [topic])
        _require_no_error(answer.topic_error_codes)

    async def _delete_records(self, topic: str, partition: int, before: int) -> None:
        await self._admin("delete_records", {TopicPartition(topic, partition): admin.RecordsToDelete(before)})

    async def _offsets(self, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
        at = TopicPartition(topic, partition)
        async with _open(self._consumer()) as consumer:
            found = (await consumer.offsets_for_times({at: timestamp}))[at]
            earliest, latest = await consumer.beginning_offsets([at]), await consumer.end_offsets([at])
            return {"earliest": earliest[at], "latest": latest[at], "at_timestamp": found.offset}

    async def _operate(self, topic: str) -> dict[str, Any]:
        return {"list topics": topic in await self._admin("list_topics")}

    # -- producing -----------------------------------------------------------------------------------------------------

    async def _produce(
        self, topic: str, partition: int, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> dict[str, Any]:
        async with self._producer(codec, acks, idempotent) as producer:
            sent = [
                await producer.send(
                    topic,
                    _bytes(record["value"]),
                    _bytes(record["key"]),
                    partition,
                    record.get("timestamp"),
                    headers=[(key, _bytes(value)) for key, value in record.get("headers", ())],
                )
                for record in records
            ]
            found = [await asyncio.wait_for(future, WAIT_S) for future in sent]
        return {"offsets": [None if done is None or done.offset < 0 else done.offset for done in found]}

    async def _stream(
        self, topic: str, partitions: int, count: int, seconds: float, idempotent: bool
    ) -> dict[str, Any]:
        acked: list[tuple[int, int, str]] = []
        failed: list[str] = []
        progress = Progress(count)

        def on_done(value: str, future: Any) -> None:
            if future.exception() is not None:
                return failed.append(str(future.exception()))
            acked.append((future.result().partition, future.result().offset, value))
            progress.acked()

        async with self._producer("none", "all", idempotent) as producer:
            sent, began = [], time.monotonic()
            for number in range(count):
                await asyncio.sleep(max(0.0, began + number * seconds / count - time.monotonic()))
                future = await producer.send(topic, str(number).encode(), partition=number % partitions)
                future.add_done_callback(lambda done, value=str(number): on_done(value, done))
                sent.append(future)
            await asyncio.wait(sent, timeout=3 * WAIT_S)
        return {"acked": acked, "failed": failed}

    def _producer(self, codec: str, acks: str, idempotent: bool) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            **self._common,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
        )

    # -- consuming -----------------------------------------------------------------------------------------------------

    async def _consume(self, topic: str, partition: int, at: Any, count: int) -> dict[str, Any]:
        here = TopicPartition(topic, partition)
        async with _open(self._consumer()) as consumer:
            consumer.assign([here])
            if isinstance(at, dict):
                found = await consumer.offsets_for_times({here: at["timestamp"]})
                consumer.seek(here, found[here].offset)
            elif at == "earliest":
                await consumer.seek_to_beginning(here)
            else:
                consumer.seek(here, at)
            return {"records": await self._take(consumer, count)}

    async def _seek(self, topic: str, partition: int, first: int, to: int, count: int) -> dict[str, Any]:
        here = TopicPartition(topic, partition)
        async with _open(self._consumer()) as consumer:
            consumer.assign([here])
            await self._take(consumer, first)
            consumer.seek(here, to)
            return {"records": await self._take(consumer, count)}

    async def _tail(self, topic: str, partition: int, count: int) -> dict[str, Any]:
        here = TopicPartition(topic, partition)
        async with _open(self._consumer()) as consumer:
            consumer.assign([here])
            await consumer.seek_to_end(here)
            await consumer.position(here)
            await consumer.getmany(timeout_ms=500)  # a fetch waits at the end
            tell({"ready": True})
            return {"records": await self._take(consumer, count)}

    async def _follow(self, topic: str, partitions: int, count: int) -> dict[str, Any]:
        records: list[tuple[int, int, str]] = []
        deadline, values = time.monotonic() + 3 * WAIT_S, set[bytes]()
        async with _open(self._consumer()) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
            while len(values) < count and time.monotonic() < deadline:
                for batch in (await consumer.getmany(timeout_ms=500)).values():
                    records += [(record.partition, record.offset, record.value.decode()) for record in batch]
                    values |= {record.value for record in batch}
        return {"records": records}

    # -- groups --------------------------------------------------------------------------------------------------------

    def _member(self, topic: str, group: str, how: str) -> AIOKafkaConsumer:
        if how != "eager":
            raise NotOffered("it has the eager protocol alone")
        return AIOKafkaConsumer(
            topic,
            **self._common,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
        )

    async def _take_as_member(self, topic: str, group: str, how: str, count: int) -> dict[str, Any]:
        async with _open(self._member(topic, group, how)) as consumer:
            found = await self._take(consumer, count)
            await consumer.commit()
        return {"records": [(one["partition"], one["offset"], one["value"]) for one in found]}

    async def _share(self, topic: str, group: str, how: str) -> dict[str, Any]:
        shared = Shared()
        async with _open(self._member(topic, group, how)) as consumer:
            while not shared.is_over:
                batches = await consumer.getmany(timeout_ms=100)
                shared.assigned(part.partition for part in consumer.assignment())
                for batch in batches.values():
                    for record in batch:
                        shared.add(record.partition, record.offset, record.value.decode())
            await consumer.commit()
        return {"records": shared.records}

    async def _committed(self, topic: str, group: str) -> dict[str, Any]:
        found = await self._admin("list_consumer_group_offsets", group)
        return {"offsets": {at.partition: one.offset for at, one in found.items() if at.topic == topic}}

    async def _administer(self, topic: str, group: str) -> dict[str, Any]:
        listed = [one[0] for one in await self._admin("list_consumer_groups")]
        (described,) = await self._admin("describe_consumer_groups", [group])
        _, _, state, *_ = described.groups[0]
        return {"list": group in listed or listed, "describe": state == "Empty" or state}

    def _consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **self._common, auto_offset_reset="earliest", enable_auto_commit=False, fetch_max_wait_ms=200
        )

    async def _take(self, consumer: AIOKafkaConsumer, count: int) -> list[dict[str, Any]]:
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            for batch in (await consumer.getmany(timeout_ms=500, max_records=count - len(found))).values():
                found += batch
        return [_shown(record) for record in found]


@contextlib.asynccontextmanager
async def _open(consumer: AIOKafkaConsumer) -> AsyncIterator[AIOKafkaConsumer]:
    """The consumer, started, and stopped at the end.

    The client's stop cancels the fetches that are under way and awaits them: one that sleeps between two attempts makes
    the stop itself raise CancelledError (`Fetcher.close` in aiokafka 0.10 to 0.14). Nobody cancelled the verb then, and
    what it has read stands.
    """
    await consumer.start()
    try:
        yield consumer
    finally:
        try:
            await consumer.stop()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise


def _require_no_error(errors: Any) -> None:
    """Topic, code and, where the version has one, a message."""
    for _, code, *message in errors:
        if code:
            from aiokafka.errors import for_code

            raise for_code(code)(*message)


def _shown(record: Any) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[key, _text(value)] for key, value in record.headers],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), Transactions(sys.argv[1]))
