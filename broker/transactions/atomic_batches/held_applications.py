"""The applications of a shard with their writers, kept as the records of both say, in whatever order they come.

A writer is a transaction like any other (transaction_metadata.py) whose transactional id names its application:

    open      Empty, Ongoing            of the version that is open; where none is, the last decision is not taken yet
    ending    PrepareCommit, …Abort     decided; its markers are on their way
    idle      CompleteCommit, …Abort    the next writer takes it over, in the epoch that its end has given it

So an application has as many producer ids as it had writers at one time, and not one for each writer that ever was.
"""

from __future__ import annotations

from broker.coordination.held_memory import ShardMemory
from broker.transactions.atomic_batches.application import BatchApplication, application_bytes
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_states import PREPARED
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX, application_id, application_of_writer
from penstock.messages.transactions.listing import TransactionState

OPEN = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})


def is_of_batch(transactional_id: str) -> bool:
    return transactional_id.startswith(BATCH_PREFIX)


def is_begun(transaction: TransactionMetadata) -> bool:
    """True for a writer before its first batch. It is open, unlike an id of a client without a transaction."""
    return transaction.state is TransactionState.EMPTY and is_of_batch(transaction.transactional_id)


class Writers:
    """The transactional ids of one application's writers. Each is in one of three places, in the order they came."""

    __slots__ = ("ending", "idle", "open")

    def __init__(self) -> None:
        self.open: dict[str, None] = {}
        self.ending: dict[str, None] = {}
        self.idle: dict[str, None] = {}

    def put(self, transactional_id: str, state: TransactionState | None) -> None:
        """Puts the writer in the place of its state; None: it is gone."""
        for place in (self.open, self.ending, self.idle):
            place.pop(transactional_id, None)
        if state in OPEN:
            self.open[transactional_id] = None
        elif state in PREPARED:
            self.ending[transactional_id] = None
        elif state is not None:
            self.idle[transactional_id] = None

    def __len__(self) -> int:
        return len(self.open) + len(self.ending) + len(self.idle)

    @property
    def is_at_rest(self) -> bool:
        return not self.open and not self.ending


_NONE = Writers()


class HeldApplications:
    """The applications of a shard with their writers."""

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory
        self.by_name: dict[str, BatchApplication] = {}
        self._writers: dict[str, Writers] = {}

    def put(self, name: str, application: BatchApplication | None) -> None:
        """The newest state of an application; None: it is gone."""
        grown = application_bytes(application, name) - application_bytes(self.by_name.get(name), name)
        if application is None:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = application
        self._memory.grown(application_id(name), grown)

    def put_writer(self, transactional_id: str, transaction: TransactionMetadata | None) -> None:
        """The newest state of a writer."""
        name = application_of_writer(transactional_id) or ""
        writers = self._writers.get(name)
        if writers is None:
            writers = self._writers[name] = Writers()
        writers.put(transactional_id, None if transaction is None else transaction.state)
        if not len(writers):
            del self._writers[name]

    def writers(self, name: str) -> Writers:
        """The writers of an application. Only `put_writer` may change them."""
        return self._writers.get(name, _NONE)

    def undecided(self) -> list[str]:
        """The applications whose last decision is not taken by all of their writers: after a load of half a turn."""
        return [name for name, writers in self._writers.items() if writers.open and not self._is_open(name)]

    def _is_open(self, name: str) -> bool:
        application = self.by_name.get(name)
        return application is not None and application.is_open

    def give_up(self) -> None:
        """The state is used no more."""
        self.by_name, self._writers = {}, {}

    def __len__(self) -> int:
        return len(self.by_name)

    def __repr__(self) -> str:
        return f"HeldApplications({len(self.by_name)})"
