"""The client of atomic batches and its writers, once for both faces.

The calls are on one event loop, but for a writer's flush, which waits as its face does. Not here: the questions to the
coordinator (atomic_calls.py), and whose turn a producer is (writer_pool.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.environment import ClientEnvironment
from penstock.client.options.config import ProducerConfig, producer_config
from penstock.client.options.options import parse_bootstrap
from penstock.client.producer.producer_calls import ProducerCalls
from penstock.client.producer.transactions.atomic_calls import AtomicCalls, Begun, Committed
from penstock.client.producer.transactions.writer_pool import PooledProducer, WriterPool
from penstock.errors import ClientClosedError, ConfigError, TransactionStateError
from penstock.types import ProducerIdAndEpoch

TIMEOUT_MS: Final = 60_000
"""Default of `transaction_timeout_ms`, too."""
Abort = Callable[[ProducerIdAndEpoch, float | None], Coroutine[Any, Any, None]]
"""Aborts the records of the writer with this identity, within this many seconds; None: `max_block_ms`."""
NOT_SENT: Final = "they are not sent, so its part must not be committed"
"""The fate of what a writer that was dropped has not flushed."""


class BatchesCore:
    """The client of atomic batches, on one event loop. It connects with its first call."""

    def __init__(
        self, bootstrap: str | Iterable[str], options: Mapping[str, Any], environment: ClientEnvironment
    ) -> None:
        self.config: ProducerConfig = checked_config(options)
        self.cluster = ClusterClient(parse_bootstrap(bootstrap, "AtomicBatches"), self.config, environment)
        self._calls = AtomicCalls(self.cluster, self.config)
        self.pool = WriterPool(self.cluster, options, environment)
        self.closed = False

    async def begin(
        self,
        application: str,
        version: int,
        *,
        timeout_ms: int = TIMEOUT_MS,
        run: str = "",
        goes_back: bool = False,
        one_off: bool = False,
    ) -> OpenWriter | None:
        """A writer of this version; None: the version is committed already, and there is nothing to write.

        A version that is not committed within `timeout_ms` is aborted. A version above the one that is open aborts that
        one. A version below the last committed one is refused (AtomicBatchVersionError), unless the application
        `goes_back` to it. `run` names this life of the application: a new run fences the one before
        (ProducerFencedError). `one_off`: the application is forgotten an hour after its last use, not after weeks.
        """
        self.check_open()
        self.pool.check_room()
        begun = await self._calls.begin(application, version, timeout_ms, run, goes_back=goes_back, one_off=one_off)
        if begun is None:
            return None
        return OpenWriter(begun, self.pool.begin(begun), self.pool, partial(self._abort_writer, application, run))

    async def commit(
        self,
        application: str,
        version: int,
        writers: Iterable[ProducerIdAndEpoch | tuple[int, int]],
        *,
        run: str = "",
        goes_back: bool = False,
        records: int = -1,
        checksum: int = 0,
    ) -> Committed:
        """Commits the version: what the writers with these identities have sent counts, what others have does not. If
        an earlier call has committed it, that one counts, and the answer says so, with the number of `records` and the
        `checksum` that that one has told: others than this time show that the version was not made from the same input.
        How the checksum is made is the application's affair; 0 tells nothing.

        All of them must have flushed. InvalidTxnStateError: one of them is not open any more, because its time was up
        or another version began; nothing has changed, and the version may be written anew. TimedOutError: it may be
        committed or not; commit again, until it tells.
        """
        self.check_open()
        return await self._calls.commit(
            application, version, writers, run, goes_back=goes_back, records=records, checksum=checksum
        )

    async def abort(self, application: str, version: int, *, run: str = "") -> bool:
        """Aborts what the writers of the version have sent. Returns True if it is committed, and nothing was done."""
        self.check_open()
        return await self._calls.abort(application, version, run)

    async def abort_writers(
        self,
        application: str,
        writers: Iterable[ProducerIdAndEpoch | tuple[int, int]],
        *,
        run: str = "",
        timeout: float | None = None,
    ) -> None:
        """Aborts the records of the writers with these identities, as each writer could by itself
        (`AtomicWriter.abort`). A process that outlives the writers' processes calls it. The version stays open for its
        other writers. A writer that is no longer open, because it is decided or its time was up, is passed over.

        TimedOutError after `timeout` seconds; None: `max_block_ms`. InvalidRequestError from a coordinator of an
        earlier version, which aborts whole versions only.
        """
        self.check_open()
        await self._calls.abort_writers(application, writers, run, timeout)

    async def last_version(self, application: str, timeout: float | None = None) -> int:
        """The last version that was committed; -1 if none is known. Changes nothing, and fences no run.

        InvalidRequestError by a coordinator of an earlier version, which is not asked that.
        """
        self.check_open()
        return await self._calls.last_version(application, timeout)

    async def _abort_writer(
        self, application: str, run: str, identity: ProducerIdAndEpoch, timeout: float | None
    ) -> None:
        await self.abort_writers(application, [identity], run=run, timeout=timeout)

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


class OpenWriter:
    """A writer without its face: its producer, which goes back when the writer ends, or its user drops it."""

    def __init__(self, begun: Begun, producer: PooledProducer, pool: WriterPool, abort: Abort) -> None:
        self.transactional_id, self.identity = begun
        self.core, self.state = producer.core, producer.state
        self._producer, self._pool = producer, pool
        self.abort = abort
        self.closed = False

    def unacked_records(self) -> int:
        return self.core.unacked_records()

    async def close_forgotten(self) -> None:
        """The user dropped it: what was not acked is not sent."""
        await self.end()

    async def end(self) -> None:
        """Gives the producer back. Idempotent."""
        if not self.closed:
            self.closed = True
            await self._pool.end(self._producer)

    def name(self) -> str:
        """The text for a person."""
        state = "closed" if self.closed else "open"
        return f"{self.transactional_id}, epoch {self.identity.epoch}, {state}"

    def __repr__(self) -> str:
        return f"OpenWriter({self.name()})"


class WriterCalls:
    """The calls of a writer's face; `sends` waits as that face does."""

    def __init__(self, writer: OpenWriter, sends: ProducerCalls) -> None:
        self._writer, self._sends = writer, sends

    def must_be_open(self) -> None:
        if self._writer.closed:
            raise TransactionStateError(f"writer {self._writer.name()}: begin another one")

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until everything is acked. TransactionAbortedError if a record has failed: the writer must not be
        committed. TimedOutError after `timeout` seconds."""
        self.must_be_open()
        await self._sends.flush(timeout)
        self._writer.state.must_take_records()

    async def abort(self, timeout: float | None = None) -> None:
        """Aborts what this writer has sent, and closes it. The version stays open for its other writers. Without it
        what a failed writer has sent holds up readers until the version is decided, or its time is up.

        InvalidRequestError by a coordinator of an earlier version, which aborts whole versions only.
        """
        await self._writer.end()
        await self._writer.abort(self._writer.identity, timeout)

    async def close(self) -> None:
        """Leaves: what is not acked is not sent. The coordinator is told nothing. Idempotent."""
        await self._writer.end()

    def __repr__(self) -> str:
        return f"WriterCalls({self._writer!r})"
