"""The calls of atomic batches to the coordinator of their application, with what users may give checked first.

Each may be asked twice: a begin whose answer was lost has begun a writer that nobody names, which the decision aborts.
Works on one event loop. Not here: what a writer sends (writer_pool.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.client.cluster.arguments import MAX_INT32, checked_number
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.options.config import ProducerConfig
from penstock.errors import AtomicBatchVersionError, InvalidUpdateVersionError, TimedOutError, UnknownServerError
from penstock.messages.api import Api
from penstock.messages.groups.coordinators import CoordinatorType
from penstock.messages.transactions.atomic_batches import (
    APPLICATION_CHARACTERS_MAX,
    NO_CHECKSUM,
    ONLY_WRITERS,
    RUN_CHARACTERS_MAX,
    AbortAtomicBatchRequest,
    BeginAtomicBatchRequest,
    CommitAtomicBatchRequest,
)
from penstock.messages.transactions.transaction_apis import ABORT_ATOMIC_BATCH, BEGIN_ATOMIC_BATCH, COMMIT_ATOMIC_BATCH
from penstock.types import PRODUCER_EPOCH_MAX, ProducerIdAndEpoch


class Begun(NamedTuple):
    """A writer, as the coordinator has begun it."""

    transactional_id: str
    identity: ProducerIdAndEpoch


class Committed(NamedTuple):
    """The answer to a commit."""

    was_committed: bool
    """True if an earlier call has committed the version. That call counts, with the writers that it named."""
    records: int
    """The number of records given by the call that counts; -1 if it gave none."""
    checksum: int = NO_CHECKSUM
    """The checksum given by the call that counts; 0 if it gave none."""


class AtomicCalls:
    """Calls the coordinators of atomic batches. A call may raise TimedOutError after `max_block_ms`, or a retriable
    error of the coordinator: then it may have been done or not, and the caller asks again."""

    def __init__(self, cluster: ClusterClient, config: ProducerConfig) -> None:
        self._cluster, self._config = cluster, config
        self._coordinators = Coordinators(cluster, CoordinatorType.TRANSACTION)

    async def begin(
        self, application: str, version: int, timeout_ms: int, run: str, *, goes_back: bool, one_off: bool
    ) -> Begun | None:
        """Begins a writer of a version; None if the version is committed already."""
        request = BeginAtomicBatchRequest(
            checked_application(application),
            checked_number("version", version, 0),
            checked_number("timeout_ms", timeout_ms, 1, MAX_INT32),
            checked_run(run),
            bool(goes_back),
            bool(one_off),
        )
        answer = await self._ask(BEGIN_ATOMIC_BATCH, request)
        if answer.is_committed:
            return None
        is_whole = answer.producer_id >= 0 and 0 <= answer.producer_epoch <= PRODUCER_EPOCH_MAX
        if not is_whole or not answer.transactional_id:
            identity = f"producer id {answer.producer_id} in epoch {answer.producer_epoch}"
            raise UnknownServerError(f"the coordinator answered with {identity} for {answer.transactional_id!r}")
        return Begun(answer.transactional_id, ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))

    async def commit(
        self, application: str, version: int, writers: Any, run: str, *, goes_back: bool, records: int, checksum: int
    ) -> Committed:
        request = CommitAtomicBatchRequest(
            checked_application(application),
            checked_number("version", version, 0),
            checked_writers(writers),
            checked_run(run),
            bool(goes_back),
            checked_number("records", records, -1),
            checked_number("checksum", checksum, NO_CHECKSUM),
        )
        answer = await self._ask(COMMIT_ATOMIC_BATCH, request)
        return Committed(answer.was_committed, answer.records, answer.checksum)

    async def abort(self, application: str, version: int, run: str) -> bool:
        """Aborts a version. True: the version is committed, and nothing was aborted."""
        request = AbortAtomicBatchRequest(
            checked_application(application), checked_number("version", version, 0), checked_run(run)
        )
        return bool((await self._ask(ABORT_ATOMIC_BATCH, request)).is_committed)

    async def last_version(self, application: str, timeout: float | None) -> int:
        """The last one that was committed; -1 if none was. A coordinator of an earlier version refuses the question."""
        request = AbortAtomicBatchRequest(checked_application(application), ONLY_WRITERS)
        return int((await self._ask(ABORT_ATOMIC_BATCH, request, timeout)).over_below) - 1

    async def abort_writers(self, application: str, writers: Any, run: str, timeout: float | None) -> None:
        """Aborts the records of these writers; the version stays open for the others. InvalidRequestError by a
        coordinator of an earlier version, which cannot do that."""
        request = AbortAtomicBatchRequest(
            checked_application(application), ONLY_WRITERS, checked_run(run), checked_writers(writers)
        )
        await self._ask(ABORT_ATOMIC_BATCH, request, timeout)

    async def _ask(self, api: Api[Any, Any], request: Any, timeout: float | None = None) -> Any:
        """`timeout` in seconds; None: `max_block_ms`."""
        left_ms = self._config.max_block_ms if timeout is None else int(timeout * 1000)
        try:
            async with asyncio.timeout(timeout):
                await self._cluster.wait_ready()
                return await self._coordinators.ask(api, request, self._cluster.clock.now_ms() + left_ms)
        except TimeoutError as error:
            raise TimedOutError(f"the coordinator of application {request.application!r} gave no answer") from error
        except InvalidUpdateVersionError as error:
            refused = AtomicBatchVersionError(str(error))
            refused.nothing_written = True
            raise refused from error

    def __repr__(self) -> str:
        return f"AtomicCalls({self._cluster!r})"


def checked_application(application: Any) -> str:
    if not isinstance(application, str):
        raise TypeError(f"application must be a str, not {type(application).__name__}")
    if not 1 <= len(application) <= APPLICATION_CHARACTERS_MAX or "#" in application:
        raise ValueError(
            f"application={application!r} must have 1 to {APPLICATION_CHARACTERS_MAX} characters, and no '#'"
        )
    return application


def checked_run(run: Any) -> str:
    if not isinstance(run, str):
        raise TypeError(f"run must be a str, not {type(run).__name__}")
    if len(run) > RUN_CHARACTERS_MAX:
        raise ValueError(f"run has {len(run)} characters, the limit is {RUN_CHARACTERS_MAX}")
    return run


def checked_writers(writers: Any) -> tuple[ProducerIdAndEpoch, ...]:
    """The identities of writers, each once."""
    if isinstance(writers, (str, bytes)) or not isinstance(writers, Iterable):
        raise TypeError(f"writers must be a list of the writers' identities, not {writers!r}")
    found = []
    for one in writers:
        if not isinstance(one, (tuple, list)) or len(one) != 2:
            raise TypeError(f"a writer is named by its `identity`, a producer id and an epoch, not by {one!r}")
        producer_id = checked_number("producer_id", one[0], 0)
        found.append(ProducerIdAndEpoch(producer_id, checked_number("epoch", one[1], 0, PRODUCER_EPOCH_MAX)))
    return tuple(dict.fromkeys(found))
