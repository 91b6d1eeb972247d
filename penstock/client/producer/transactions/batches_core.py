"""The client of atomic batches without its face: what AtomicBatches and AsyncAtomicBatches share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.environment import ClientEnvironment
from penstock.client.options.config import ProducerConfig, producer_config
from penstock.client.options.options import parse_bootstrap
from penstock.client.producer.transactions.atomic_calls import AtomicCalls, Begun, Committed
from penstock.client.producer.transactions.writer_pool import PooledProducer, WriterPool
from penstock.errors import ClientClosedError, ConfigError
from penstock.types import ProducerIdAndEpoch

NOT_SENT = "they are not sent, so its part must not be committed"
"""The fate of what a writer that was dropped has not flushed."""


class BatchesCore:
    """The client of atomic batches, on one event loop. It connects with its first call."""

    def __init__(
        self, bootstrap: str | Iterable[str], options: Mapping[str, Any], environment: ClientEnvironment
    ) -> None:
        self.config: ProducerConfig = checked_config(options)
        self.cluster = ClusterClient(parse_bootstrap(bootstrap, "AtomicBatches"), self.config, environment)
        self.calls = AtomicCalls(self.cluster, self.config)
        self.pool = WriterPool(self.cluster, options, environment)
        self.closed = False

    async def begin(
        self, application: str, version: int, timeout_ms: int, run: str, goes_back: bool, one_off: bool
    ) -> tuple[Begun, PooledProducer] | None:
        """The writer with its producer; None: the version is committed already."""
        self.check_open()
        self.pool.check_room()
        begun = await self.calls.begin(application, version, timeout_ms, run, goes_back=goes_back, one_off=one_off)
        return None if begun is None else (begun, self.pool.begin(begun))

    async def commit(
        self, application: str, version: int, writers: Any, run: str, goes_back: bool, records: int, checksum: int
    ) -> Committed:
        self.check_open()
        return await self.calls.commit(
            application, version, writers, run, goes_back=goes_back, records=records, checksum=checksum
        )

    async def abort(self, application: str, version: int, run: str) -> bool:
        self.check_open()
        return await self.calls.abort(application, version, run)

    async def last_version(self, application: str, timeout: float | None) -> int:
        self.check_open()
        return await self.calls.last_version(application, timeout)

    async def abort_writer(
        self, application: str, run: str, identity: ProducerIdAndEpoch, timeout: float | None
    ) -> None:
        await self.abort_writers(application, [identity], run, timeout)

    async def abort_writers(self, application: str, writers: Any, run: str, timeout: float | None) -> None:
        self.check_open()
        await self.calls.abort_writers(application, writers, run, timeout)

    def check_open(self) -> None:
        if self.closed:
            raise ClientClosedError("this AtomicBatches is closed; make a new one")

    def name(self) -> str:
        """The text for a person."""
        return f"{','.join(map(str, self.cluster.bootstrap))}, {'closed' if self.closed else 'open'}"

    def unacked_records(self) -> int:
        return self.pool.unacked_records()

    async def close_forgotten(self) -> None:
        """The user dropped it: nobody can commit what its writers have."""
        await self.close()

    async def close(self) -> None:
        """Ends all traffic. Idempotent."""
        self.closed = True
        self.cluster.begin_close()
        await self.pool.close()
        await self.cluster.close()

    def __repr__(self) -> str:
        return f"BatchesCore({self.cluster!r}, {self.pool!r})"


def checked_config(options: Mapping[str, Any]) -> ProducerConfig:
    """ConfigError for options with which no writer could be exact."""
    if options.get("transactional_id") is not None:
        raise ConfigError("AtomicBatches has no option transactional_id: the coordinator names its writers")
    config = producer_config(options)
    if not config.enable_idempotence:
        raise ConfigError(
            "AtomicBatches needs acks='all', enable_idempotence=True, retries, and at most 5 requests in flight, which"
            " are the defaults"
        )
    return config


class Leaving:
    """The end of a writer that its user dropped: its producer goes back, and what was not acked is not sent."""

    def __init__(self, pool: WriterPool, producer: PooledProducer) -> None:
        self._pool, self._producer = pool, producer
        self.closed = False

    def unacked_records(self) -> int:
        return self._producer.core.unacked_records()

    async def close_forgotten(self) -> None:
        await self.end()

    async def end(self) -> None:
        """Ends the client. Idempotent."""
        if not self.closed:
            self.closed = True
            await self._pool.end(self._producer)

    def __repr__(self) -> str:
        return f"Leaving({self._producer!r})"
