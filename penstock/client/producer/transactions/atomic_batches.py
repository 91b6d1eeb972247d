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

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.background import IN_CALLBACK
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.faces import blocking, blocking_made, documented_by, face, in_callers_thread, named, within
from penstock.client.forgotten import close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.producer import Producer, producer_over
from penstock.client.producer.transactions import part_sends
from penstock.client.producer.transactions.batches_core import NOT_SENT, BatchesCore, OpenWriter, WriterCalls
from penstock.errors import CalledInCallbackError

P = ParamSpec("P")
T = TypeVar("T")

NOT_HERE = dict.fromkeys(
    ("send", "send_many", "flush"), "begin a writer, which has it: `writer = batches.begin(application, version)`"
)
"""Calls that a user may look for here, and where they are."""


@named
class AtomicWriter:
    """One writer of one version. It ends with `close`, or at the end of its `with` block, which flushes first."""

    def __init__(self, batches: AtomicBatches, writer: OpenWriter) -> None:
        self.identity = writer.identity
        """Names it to `commit`: a producer id and an epoch."""
        self.transactional_id = writer.transactional_id
        self._batches = batches  # it is not dropped while a writer lives
        self._background = batches._background
        self._producer = producer_over(writer.core, batches._environment)
        self._writer = writer
        self._calls = WriterCalls(writer, self._producer._calls)
        self._must_be_open = self._calls.must_be_open
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), writer, self._background, NOT_SENT)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        return self._batches._run(call, *args, **more)

    send = within(part_sends.send, Producer.send.__doc__)
    send_many = within(part_sends.send_many, Producer.send_many.__doc__)
    flush = in_callers_thread(WriterCalls.flush)
    abort = blocking(WriterCalls.abort)

    @documented_by(WriterCalls.close)
    def close(self) -> None:
        if not self._writer.closed and self._background.alive:
            self._background.run(self._calls.close())

    def __enter__(self) -> AtomicWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"AtomicWriter({self._writer.name()})"


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
        self._calls = BatchesCore(bootstrap, options, self._environment)
        self._background = self._environment.background()
        self._background.add(self)
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), self._calls, self._background, NOT_SENT)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread closes the client."""
        return self._background.run(self._calls.cluster.waiting_calls.until_closed(call, *args, **more))

    begin = blocking_made(BatchesCore.begin, AtomicWriter)
    commit = blocking(BatchesCore.commit)
    abort = blocking(BatchesCore.abort)
    abort_writers = blocking(BatchesCore.abort_writers)
    last_version = blocking(BatchesCore.last_version)

    def close(self, timeout: float | None = None) -> None:
        """Ends all traffic: what its writers have not flushed is not sent. Decides nothing. Idempotent."""
        if self._calls.closed:
            return
        if self._background.is_current:
            raise CalledInCallbackError(IN_CALLBACK)
        self._background.discard(self)
        if self._background.alive:
            self._background.run(self._calls.close(), timeout)

    def __enter__(self) -> AtomicBatches:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"AtomicBatches({self._calls.name()})"
