"""The requests of atomic batches that are refused, before anything is decided. Pure."""

from __future__ import annotations

from typing import Final

from broker.transactions.atomic_batches.application import NO_VERSION, NOT_GIVEN, BatchApplication
from broker.transactions.atomic_batches.held_applications import Writers
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import HeldTransactions
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    InvalidUpdateVersionError,
    ProducerFencedError,
    ResourceExhaustedError,
)
from penstock.messages.transactions.atomic_batches import (
    APPLICATION_CHARACTERS_MAX,
    NO_CHECKSUM,
    ONLY_WRITERS,
    RUN_CHARACTERS_MAX,
    AbortAtomicBatchRequest,
    BeginAtomicBatchRequest,
    CommitAtomicBatchRequest,
    writer_id,
)
from penstock.messages.transactions.transaction_apis import WRITERS_MAX
from penstock.types import ProducerIdAndEpoch

TIMES: Final = 4
"""An atomic batch may be open for TIMES times `transaction.max.timeout.ms`. A job whose batch was planned cannot make
it smaller, as a producer can its next transaction; without more time it would begin the same batch for ever."""


def check_names(application: str, version: int, run: str, version_min: int = 0) -> None:
    """InvalidRequestError for what no application can have."""
    check_application(application)
    if len(run) > RUN_CHARACTERS_MAX:
        raise InvalidRequestError(f"the run has {len(run)} characters, the limit is {RUN_CHARACTERS_MAX}")
    if version < version_min:
        raise InvalidRequestError(f"version {version} of application {application!r} is below {version_min}")


def check_application(application: str) -> None:
    """InvalidRequestError for a name that no application can have. BEFORE its coordinator is looked for."""
    if not application:
        raise InvalidRequestError("the application of an atomic batch has no name; give it one that it keeps")
    if len(application) > APPLICATION_CHARACTERS_MAX or "#" in application:
        raise InvalidRequestError(
            f"application {application!r} has {len(application)} characters: it may have {APPLICATION_CHARACTERS_MAX},"
            " and no '#', which its writers have"
        )


def check_timeout(timeout_ms: int, config: TransactionConfig) -> None:
    timeout_max_ms = TIMES * config.transaction_max_timeout_ms
    if not 0 < timeout_ms <= timeout_max_ms:
        raise InvalidTransactionTimeoutError(
            f"a writer's time-out of {timeout_ms} ms is not within 1 and {timeout_max_ms} ms"
            f" ({TIMES} x transaction.max.timeout.ms)"
        )


def check_sums(request: CommitAtomicBatchRequest) -> None:
    if request.records < NOT_GIVEN or request.checksum < NO_CHECKSUM:
        raise InvalidRequestError(
            f"a version has no {request.records} records with the checksum {request.checksum}; -1 and 0 tell nothing"
        )


def check_abort(request: AbortAtomicBatchRequest) -> None:
    """InvalidRequestError for writers beside a version: whether the others are meant cannot be told."""
    check_names(request.application, request.version, request.run, ONLY_WRITERS)
    if request.writers and request.version != ONLY_WRITERS:
        raise InvalidRequestError(
            f"an abort of application {request.application!r} names version {request.version} and"
            f" {len(request.writers)} writers: writers go with version {ONLY_WRITERS}, and only with it"
        )


def check_run(name: str, found: BatchApplication | None, run: str) -> None:
    """ProducerFencedError if another run has begun since."""
    if found is not None and run and run in found.fenced_runs:
        raise ProducerFencedError(
            f"run {run!r} of application {name!r} is over, because run {found.run!r} has begun: two runs of one"
            " application, as with a copied checkpoint, would write its versions twice. Stop one of them, or give it"
            " another application"
        )


def check_version(found: BatchApplication, request: BeginAtomicBatchRequest | CommitAtomicBatchRequest) -> None:
    """InvalidUpdateVersionError for a version that is over, unless the application goes back to it."""
    name, version = request.application, request.version
    if request.goes_back:
        return
    if version < found.last_version:
        raise InvalidUpdateVersionError(
            f"version {version} of application {name!r} is below the last one that was committed,"
            f" {found.last_version}: does it begin anew, or from an older state? Give it another application, or say"
            " that it goes back"
        )
    if not is_other_run(found, request.run) and version < found.open_version:
        raise InvalidUpdateVersionError(
            f"version {version} of application {name!r} was given up when version {found.open_version} began"
        )


def is_other_run(found: BatchApplication, run: str) -> bool:
    return bool(run) and run != found.run


def check_accepted(
    found: BatchApplication | None, writers: Writers, held: HeldTransactions, request: CommitAtomicBatchRequest
) -> None:
    """InvalidTxnStateError unless all that are named are open writers of this version, and of this run."""
    name, version = request.application, request.version
    if not request.writers:
        return
    if len(set(request.writers)) < len(request.writers):
        raise InvalidRequestError(f"version {version} of application {name!r}: a writer is named twice")
    is_open = found is not None and found.open_version == version != NO_VERSION
    if found is None or not is_open or is_other_run(found, request.run):
        raise InvalidTxnStateError(
            f"version {version} of application {name!r} is not open: what its writers wrote is aborted, because their"
            " time was up, or another version or run began; write it anew"
        )
    for writer in request.writers:
        if not is_open_writer(name, writers, held, writer):
            raise InvalidTxnStateError(
                f"producer {writer.producer_id} in epoch {writer.epoch} is no open writer of version {version} of"
                f" application {name!r}: it never was, or its time was up, and what it wrote is aborted; write the"
                " version anew, with a longer time-out"
            )


def is_open_writer(name: str, writers: Writers, held: HeldTransactions, writer: ProducerIdAndEpoch) -> bool:
    """True while what this one has written is undecided."""
    transactional_id = writer_id(name, writer.producer_id)
    return transactional_id in writers.open and held.by_id[transactional_id].producer_epoch == writer.epoch


def no_room(name: str, writers: Writers) -> ApiError:
    """The answer where an application has as many writers as it may, and none is idle."""
    if writers.ending:
        return ConcurrentTransactionsError(
            f"{len(writers.ending)} writers of application {name!r} are still being ended; ask again"
        )
    return ResourceExhaustedError(
        f"application {name!r} has {len(writers.open)} open writers, and may have {WRITERS_MAX}: commit or abort its"
        " version, or let fewer tasks write"
    )
