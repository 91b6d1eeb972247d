"""AtomicBatches: one decision over the writes of many producers, in any number of processes.

An application writes numbered versions. Each of its workers begins a writer, sends with it, and gives the writer's
`identity` to the process that leads. That process commits the version with the writers that count. Readers of committed
records get all of their records, or none. Beginning or committing a committed version again does no harm:

    batches = AtomicBatches("localhost:9192")
    writer = batches.begin("import", 7)          # in a worker; None: version 7 is committed already
    if writer is not None:
        with writer:
            writer.send("orders", b"...")
        tell_the_leader(writer.identity)
    batches.commit("import", 7, identities)      # in the process that leads

The plain face, for any number of threads. Not here: the coordinator's rules (docs/transactions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.background import IN_CALLBACK
from penstock.client.environment import Background, ClientEnvironment, given_or_system
from penstock.client.faces import documented_by, face
from penstock.client.forgotten import close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.client.producer.producer import Producer, producer_over
from penstock.client.producer.transactions.atomic_calls import Begun, Committed
from penstock.client.producer.transactions.batches_core import NOT_SENT, BatchesCore, Leaving
from penstock.client.producer.transactions.writer_pool import PooledProducer
from penstock.errors import CalledInCallbackError, TransactionStateError
from penstock.record.builder import HeadersLike
from penstock.types import ProducerIdAndEpoch

P = ParamSpec("P")
T = TypeVar("T")
TIMEOUT_MS = 60_000
"""Default of `transaction_timeout_ms`, too."""
Abort = Callable[[ProducerIdAndEpoch, float | None], Coroutine[Any, Any, None]]
"""Aborts the records of the writer with this identity, within this many seconds; None: `max_block_ms`."""
NOT_HERE = dict.fromkeys(
    ("send", "send_many", "flush"), "begin a writer, which has it: `writer = batches.begin(application, version)`"
)
"""Calls that a user may look for here, and where they are."""


@face(ProducerConfig, NOT_HERE)
class AtomicBatches:
    """Begins writers of atomic batches, and commits or aborts versions. Options are the producer's."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._environment = given_or_system(environment)
        self._core = BatchesCore(bootstrap, options, self._environment)
        self._background: Background = self._environment.background()
        self._background.add(self)
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), self._core, self._background, NOT_SENT)

    def begin(
        self,
        application: str,
        version: int,
        *,
        timeout_ms: int = TIMEOUT_MS,
        run: str = "",
        goes_back: bool = False,
        one_off: bool = False,
    ) -> AtomicWriter | None:
        """A writer of this version; None: the version is committed already, and there is nothing to write.

        A version that is not committed within `timeout_ms` is aborted. A version above the one that is open aborts that
        one. A version below the last committed one is refused (AtomicBatchVersionError), unless the application
        `goes_back` to it. `run` names this life of the application: a new run fences the one before
        (ProducerFencedError). `one_off`: the application is forgotten an hour after its last use, not after weeks.
        """
        begun = self._run(self._core.begin, application, version, timeout_ms, run, goes_back, one_off)
        if begun is None:
            return None
        abort = partial(self._core.abort_writer, application, run)
        return AtomicWriter(self, self._environment, self._core, *begun, abort)

    def commit(
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
        return self._run(self._core.commit, application, version, writers, run, goes_back, records, checksum)

    def abort(self, application: str, version: int, *, run: str = "") -> bool:
        """Aborts what the writers of the version have sent. Returns True if it is committed, and nothing was done."""
        return self._run(self._core.abort, application, version, run)

    def abort_writers(
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
        self._run(self._core.abort_writers, application, writers, run, timeout)

    def last_version(self, application: str, timeout: float | None = None) -> int:
        """The last version that was committed; -1 if none is known. Changes nothing, and fences no run.

        InvalidRequestError by a coordinator of an earlier version, which is not asked that.
        """
        return self._run(self._core.last_version, application, timeout)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        return self._background.run(self._core.cluster.waiting_calls.until_closed(call, *args, **more))

    def close(self, timeout: float | None = None) -> None:
        """Ends all traffic: what its writers have not flushed is not sent. Decides nothing. Idempotent."""
        if self._core.closed:
            return
        if self._background.is_current:
            raise CalledInCallbackError(IN_CALLBACK)
        self._background.discard(self)
        if self._background.alive:
            self._background.run(self._core.close(), timeout)

    def __enter__(self) -> AtomicBatches:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"AtomicBatches({self._core.name()})"


class AtomicWriter:
    """One writer of one version. It ends with `close`, or at the end of its `with` block, which flushes first."""

    def __init__(
        self,
        batches: AtomicBatches,
        environment: ClientEnvironment,
        core: BatchesCore,
        begun: Begun,
        producer: PooledProducer,
        abort: Abort,
    ) -> None:
        self.identity = begun.identity
        """Names it to `commit`: a producer id and an epoch."""
        self.transactional_id = begun.transactional_id
        self._batches = batches  # it is not dropped while a writer lives
        self._background = environment.background()
        self._state = producer.state
        self._producer = producer_over(producer.core, environment)
        self._leaving = Leaving(core.pool, producer)
        self._waiting_calls = core.cluster.waiting_calls
        self._abort = abort
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), self._leaving, self._background, NOT_SENT)

    def _must_be_open(self) -> None:
        if self._leaving.closed:
            raise TransactionStateError(f"{self!r}: begin another one")

    @documented_by(Producer.send)
    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        self._must_be_open()
        return self._producer.send(topic, value, key, headers, partition, timestamp_ms)

    @documented_by(Producer.send_many)
    def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        self._must_be_open()
        return self._producer.send_many(topic, values, keys, partition, timestamp_ms)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until everything is acked. TransactionAbortedError if a record has failed: the writer must not be
        committed. TimedOutError after `timeout` seconds."""
        self._must_be_open()
        self._producer.flush(timeout)
        self._state.check_takes()

    def abort(self, timeout: float | None = None) -> None:
        """Aborts what this writer has sent, and closes it. The version stays open for its other writers. Without it
        what a failed writer has sent holds up readers until the version is decided, or its time is up.

        InvalidRequestError by a coordinator of an earlier version, which aborts whole versions only.
        """
        self.close()
        self._background.run(self._waiting_calls.until_closed(self._abort, self.identity, timeout))

    def close(self) -> None:
        """Leaves: what is not acked is not sent. The coordinator is told nothing. Idempotent."""
        if not self._leaving.closed and self._background.alive:
            self._background.run(self._waiting_calls.until_closed(self._leaving.end))

    def __enter__(self) -> AtomicWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._leaving.closed else "open"
        return f"AtomicWriter({self.transactional_id}, epoch {self.identity.epoch}, {state})"
