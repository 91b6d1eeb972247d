"""Errors of a client's own: of its time limits, its buffer, its end, and the process that it runs in.

They never cross a wire. Users import them from penstock.errors.
"""

from __future__ import annotations

from penstock.base_error import PenstockError


class TimedOutError(PenstockError):
    """A client gave up waiting within its own time limit; a write may have been done, unless `nothing_written`."""

    __module__ = "penstock.errors"


class BufferExhaustedError(PenstockError):
    """The producer's buffer stayed full for `max_block_ms`."""

    __module__ = "penstock.errors"


class BootstrapError(PenstockError):
    """No bootstrap address answered; names each address and why."""

    __module__ = "penstock.errors"


class ClientClosedError(PenstockError):
    """The client was closed; make a new one. A record that it had may be written, unless `nothing_written`."""

    __module__ = "penstock.errors"


class ForkedClientError(PenstockError):
    """A client, or the promise of a send, was used in a forked child of the process that made it."""

    __module__ = "penstock.errors"


class GreenThreadsError(PenstockError):
    """gevent or eventlet has patched the threads of this process, and a client needs a real one."""

    __module__ = "penstock.errors"


class CalledInCallbackError(PenstockError):
    """A callback made a call that waits for the thread that runs it, or for its own end: it would wait for ever."""

    __module__ = "penstock.errors"


class CommitFailedError(PenstockError):
    """Offsets were not committed: the partition is another member's by now, or was never this consumer's."""

    __module__ = "penstock.errors"


class SubscriptionError(PenstockError):
    """A call does not fit how the consumer gets its partitions: by `subscribe`, or by `assign`, and not by both; a
    consumer with a group polls after one of them."""

    __module__ = "penstock.errors"


class TransactionStateError(PenstockError):
    """A call does not fit the state of the producer's transaction: none is open, one is open already, or another thread
    is ending it."""

    __module__ = "penstock.errors"


class TransactionAbortedError(PenstockError):
    """The transaction cannot be committed: abort it, as a `with` block does by itself, and begin again. Its records are
    never read as committed."""

    __module__ = "penstock.errors"


class AtomicBatchVersionError(PenstockError):
    """The version of an atomic batch is below the last one that its application has committed."""

    __module__ = "penstock.errors"


class FatalProducerError(PenstockError):
    """The transactional producer cannot go on: close it, and make a new one."""

    __module__ = "penstock.errors"


class ProcessingError(PenstockError):
    """A handler of `penstock.process` has raised an error that ends the call; its cause is that error. No record is
    lost: the one that it names is the next to be processed."""

    __module__ = "penstock.errors"


class HandlerError(ProcessingError, TypeError):
    """A handler of `penstock.process` is wrong: it is a coroutine function where a plain one belongs, returned what is
    no `Output`, or raised an error of the program, such as a TypeError. Mend the program."""

    __module__ = "penstock.errors"


class RetryLater(PenstockError):
    """Raised by a handler of `penstock.process` when the world is at fault, not the record: the record is processed
    again, however often, `after_ms` later, or after the next back-off."""

    __module__ = "penstock.errors"

    def __init__(self, *args: object, after_ms: int | None = None) -> None:
        super().__init__(*args)
        if after_ms is not None and after_ms < 0:
            raise ValueError(f"after_ms={after_ms} must be at least 0")
        self.after_ms = after_ms


class PositionsTakenError(PenstockError):
    """Another program has saved positions under the same reader's name since they were loaded."""

    __module__ = "penstock.errors"


class MissingDependencyError(PenstockError):
    """An optional package is not installed; names the extra that brings it."""

    __module__ = "penstock.errors"
