"""Atomic batches: one durable decision over the writes of many producers.

An application writes numbered versions, as a stream processor writes its batches. Each writer of a version begins, and
gets a producer of its own, which writes as a transactional producer does, under the transactional id of the answer.
Then one call commits the version with the writers that it accepts, and aborts all others. A version that is committed
stays so: to begin or commit it again says that it is. A lower one than the last is refused with INVALID_UPDATE_VERSION.

A run is one life of an application, by a name that no other has. Where runs are named, a new one fences the one before:
what that one has open is aborted, and all it asks is refused with PRODUCER_FENCED. A request without a run is any's.
"""

from __future__ import annotations

from typing import Final

from penstock.lazy_dataclass import dataclass
from penstock.types import ProducerIdAndEpoch

BATCH_PREFIX: Final = "penstock.batch:"
"""Transactional ids of atomic batches: this and the application's name; of a writer also `#` and its producer id."""
APPLICATION_CHARACTERS_MAX: Final = 200
RUN_CHARACTERS_MAX: Final = 200
OPEN_VERSION: Final = -1
"""Whichever version is open, where one is to be aborted."""
ONLY_WRITERS: Final = -2
"""No version: only the writers that are named are aborted. A broker of an earlier version refuses this number, so that
it never takes the request for one that aborts the whole version."""
NO_CHECKSUM: Final = 0
"""The application tells no checksum."""


def application_id(application: str) -> str:
    """The id whose coordinator has the application, and all of its writers."""
    return f"{BATCH_PREFIX}{application}"


def writer_id(application: str, producer_id: int) -> str:
    return f"{application_id(application)}#{producer_id}"


def application_of_writer(transactional_id: str) -> str | None:
    """The application whose writer has this id; None for every other id."""
    if not transactional_id.startswith(BATCH_PREFIX):
        return None
    application, mark, _ = transactional_id[len(BATCH_PREFIX) :].rpartition("#")
    return application if mark else None


@dataclass(frozen=True, slots=True)
class BeginAtomicBatchRequest:
    """A writer begins. `timeout_ms`: the writer's records are aborted if they are undecided for this time. `goes_back`:
    a version below the last one is meant, and the application begins again from there. `is_one_off`: the application is
    forgotten an hour after its last use."""

    application: str
    version: int
    timeout_ms: int
    run: str = ""
    goes_back: bool = False
    is_one_off: bool = False

    @property
    def transactional_id(self) -> str:
        return application_id(self.application)


@dataclass(frozen=True, slots=True)
class BeginAtomicBatchResponse:
    """`is_committed`: the version is committed, there is nothing to write, and there is no producer."""

    is_committed: bool
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class CommitAtomicBatchRequest:
    """The writers that count. The version's other writers are aborted. Without any writer the version is empty, and
    needs no begin. `records` and `checksum`: the number of their records, and the application's sum over them, for the
    answer to a later commit of the same version; else -1 and NO_CHECKSUM."""

    application: str
    version: int
    writers: tuple[ProducerIdAndEpoch, ...] = ()
    run: str = ""
    goes_back: bool = False
    records: int = -1
    checksum: int = NO_CHECKSUM

    @property
    def transactional_id(self) -> str:
        return application_id(self.application)


@dataclass(frozen=True, slots=True)
class CommitAtomicBatchResponse:
    """`was_committed`: by an earlier call. `records`, `checksum`: as the call has told that counts."""

    was_committed: bool
    records: int = -1
    checksum: int = NO_CHECKSUM


@dataclass(frozen=True, slots=True)
class AbortAtomicBatchRequest:
    """Aborts all writers of the version, if it is open; OPEN_VERSION for whichever is open. With ONLY_WRITERS it aborts
    the `writers` that are named, and leaves the others open; without any it is a question, and changes nothing."""

    application: str
    version: int
    run: str = ""
    writers: tuple[ProducerIdAndEpoch, ...] = ()

    @property
    def transactional_id(self) -> str:
        return application_id(self.application)


@dataclass(frozen=True, slots=True)
class AbortAtomicBatchResponse:
    """Nothing of the version is open any more. `is_committed`: because it is committed. `over_below`: every version
    below this one is over, as the last that was committed is; 0 if none is, and from a broker of an earlier version."""

    is_committed: bool = False
    over_below: int = 0
