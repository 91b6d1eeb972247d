"""Transactions of aiokafka, for its driver."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.interop.drivers import login
from tests.interop.drivers.serve import RELAYED, WAIT_S


class Transactions:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap_servers": bootstrap, **login.aiokafka()}

    def transact(self, **arguments: Any) -> None:
        asyncio.run(self._transact(**arguments))

    def fence(self, **arguments: Any) -> dict[str, Any]:
        return asyncio.run(self._fence(**arguments))

    def relay(self, **arguments: Any) -> None:
        asyncio.run(self._relay(**arguments))

    def read(self, **arguments: Any) -> dict[str, Any]:
        return asyncio.run(self._read(**arguments))

    async def _transact(self, topic: str, partition: int, id: str, transactions: list[dict[str, Any]]) -> None:
        async with self._producer(id) as producer:
            for one in transactions:
                await producer.begin_transaction()
                for value in one["values"]:
                    await producer.send_and_wait(topic, value.encode(), partition=partition)
                await getattr(producer, f"{one['end']}_transaction")()

    async def _fence(self, topic: str, partition: int, id: str, older: str, newer: str) -> dict[str, Any]:
        first = self._producer(id)
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(topic, older.encode(), partition=partition)
        await self._transact(topic, partition, id, [{"values": [newer], "end": "commit"}])
        try:
            await first.commit_transaction()
        except KafkaError as error:
            return {"refused": repr(error)}
        return {"refused": None}

    async def _relay(self, source: str, topic: str, group: str, id: str, ends: list[str]) -> None:
        async with self._producer(id) as producer:
            for end in ends:
                async with self._consumer("read_committed", group) as consumer:
                    consumer.subscribe([source])
                    found = await _taken(consumer, RELAYED)
                    await producer.begin_transaction()
                    for record in found:
                        await producer.send(topic, record.value, partition=0)
                    at = {TopicPartition(source, 0): found[-1].offset + 1}
                    await producer.send_offsets_to_transaction(at, group)
                    await getattr(producer, f"{end}_transaction")()

    async def _read(self, topic: str, partition: int, isolation: str, count: int) -> dict[str, Any]:
        here = TopicPartition(topic, partition)
        async with self._consumer(isolation) as consumer:
            consumer.assign([here])
            await consumer.seek_to_beginning(here)
            return {"values": [record.value.decode() for record in await _taken(consumer, count)]}

    def _producer(self, id: str) -> AIOKafkaProducer:
        return AIOKafkaProducer(**self._common, transactional_id=id, linger_ms=5)

    def _consumer(self, isolation: str, group: str | None = None) -> AIOKafkaConsumer:
        how = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 200}
        return AIOKafkaConsumer(**self._common, **how, group_id=group, isolation_level=isolation)


async def _taken(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for batch in (await consumer.getmany(timeout_ms=500, max_records=count - len(found))).values():
            found += batch
    return found
