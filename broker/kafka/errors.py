"""Errors in Kafka's protocol: the code and the text that a client of an API's version gets for one of ours.

The codes of `ApiError` are Kafka's, so most are sent as they are. The tables below have the others:

    EVERYWHERE   codes that clients of Kafka know only in some APIs, or never get from a node. Each has a substitute,
                 and the first version of each API whose clients do know it
    IN_API       per API, codes that its older clients do not know, or that its clients would not try again after

A substitute keeps two things true: a client tries again after it exactly if it should, and no substitute says "nothing
was written" where that is not known. An API is named as in the table of APIs (`penstock/messages/apis.py`). `Code` has
Kafka's codes that only this protocol uses.

Not here: where an answer has its errors, which each plan knows (`apis/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from penstock import errors
from penstock.errors import ApiError
from penstock.types import LeaderHint

MESSAGE_CHARS_MAX: Final = 2_000
"""Kafka's strings have 32,767 bytes at most, and a client may log an error many times."""
ALWAYS: Final = 2**15
"""A version above every other: no client of the API knows the code."""


class Code(IntEnum):
    """Kafka's codes without a class of ours."""

    NONE = 0
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71


Instead = type[ApiError] | Code


class Substitute(NamedTuple):
    """Sent instead of a code to clients that do not know it."""

    code: Instead
    known: Mapping[str, int] = {}
    """API → the first version whose clients know the code itself."""


class Older(NamedTuple):
    """Sent instead of a code in the versions of one API below a number."""

    below: int
    code: Instead


EVERYWHERE: Final[Mapping[type[ApiError], Substitute]] = {
    # Kafka's nodes never send it: clients make it when a connection ends. librdkafka takes it for permanent.
    errors.NetworkError: Substitute(errors.RequestTimedOutError),
    # Kafka sends it for quotas of topic changes only (KIP-599). librdkafka takes it for permanent elsewhere.
    errors.ResourceExhaustedError: Substitute(
        errors.RequestTimedOutError, {"CreateTopics": 6, "CreatePartitions": 3, "DeleteTopics": 5}
    ),
    # Whoever has asked by name knows no ids (KIP-516).
    errors.UnknownTopicIdError: Substitute(
        errors.UnknownTopicOrPartitionError,
        {"Produce": 13, "Fetch": 13, "Metadata": 12, "DeleteTopics": 6, "OffsetCommit": 10, "OffsetFetch": 10},
    ),
    errors.InconsistentTopicIdError: Substitute(errors.UnknownTopicOrPartitionError, {"Fetch": 13}),
    errors.FetchSessionTopicIdError: Substitute(errors.UnknownTopicOrPartitionError, {"Fetch": 13}),
    # A code of our own, of gRPC alone. Kafka's word for a request that comes before its connection may ask.
    errors.AuthenticationRequiredError: Substitute(errors.IllegalSaslStateError),
}

_NO_COORDINATOR: Final[Mapping[type[ApiError], Older]] = {
    # Kafka's answer while a coordinator cannot write. Java throws at the others, except in a commit.
    errors.RequestTimedOutError: Older(ALWAYS, errors.CoordinatorNotAvailableError),
    errors.NetworkError: Older(ALWAYS, errors.CoordinatorNotAvailableError),
    errors.ResourceExhaustedError: Older(ALWAYS, errors.CoordinatorNotAvailableError),
}
_FENCED: Final[Mapping[type[ApiError], Older]] = {
    errors.ProducerFencedError: Older(2, errors.InvalidProducerEpochError),
}
IN_API: Final[Mapping[str, Mapping[type[ApiError], Older]]] = {
    "Produce": {
        errors.KafkaStorageError: Older(4, errors.RequestTimedOutError),
        errors.UnknownProducerIdError: Older(5, errors.OutOfOrderSequenceError),
        # Producers expect the older code of a leader, and end by it; PRODUCER_FENCED is their coordinator's word.
        errors.ProducerFencedError: Older(ALWAYS, errors.InvalidProducerEpochError),
        errors.TransactionAbortableError: Older(11, errors.InvalidTxnStateError),
        # A producer of transaction version 1 has added its partitions by then, so it does not expect to wait.
        errors.ConcurrentTransactionsError: Older(12, errors.NotEnoughReplicasError),
    },
    # A Java consumer throws at every code that it does not expect of a partition. It asks again after these.
    "Fetch": {
        errors.KafkaStorageError: Older(6, errors.NotLeaderOrFollowerError),
        errors.FencedLeaderEpochError: Older(9, errors.NotLeaderOrFollowerError),
        errors.UnknownLeaderEpochError: Older(9, errors.NotLeaderOrFollowerError),
        errors.OffsetNotAvailableError: Older(11, errors.NotLeaderOrFollowerError),
        errors.ReplicaNotAvailableError: Older(11, errors.NotLeaderOrFollowerError),
        errors.LeaderNotAvailableError: Older(ALWAYS, errors.NotLeaderOrFollowerError),
        errors.RequestTimedOutError: Older(ALWAYS, errors.NotLeaderOrFollowerError),
        errors.NetworkError: Older(ALWAYS, errors.NotLeaderOrFollowerError),
        errors.ResourceExhaustedError: Older(ALWAYS, errors.NotLeaderOrFollowerError),
    },
    "ListOffsets": {
        errors.FencedLeaderEpochError: Older(4, errors.NotLeaderOrFollowerError),
        errors.UnknownLeaderEpochError: Older(4, errors.NotLeaderOrFollowerError),
        errors.OffsetNotAvailableError: Older(5, errors.LeaderNotAvailableError),
    },
    "Metadata": {
        errors.ListenerNotFoundError: Older(6, errors.LeaderNotAvailableError),
    },
    # Kafka's answer while a broker waits for a block of ids; Java gives up after any other one but a coordinator's.
    "InitProducerId": {
        errors.RequestTimedOutError: Older(ALWAYS, errors.CoordinatorLoadInProgressError),
        errors.NetworkError: Older(ALWAYS, errors.CoordinatorLoadInProgressError),
        errors.NotControllerError: Older(ALWAYS, errors.CoordinatorLoadInProgressError),
        errors.ResourceExhaustedError: Older(ALWAYS, errors.CoordinatorLoadInProgressError),
        errors.ProducerFencedError: Older(4, errors.InvalidProducerEpochError),
        errors.TransactionAbortableError: Older(5, errors.InvalidTxnStateError),
    },
    "AddPartitionsToTxn": {
        **_NO_COORDINATOR,
        **_FENCED,
        errors.TransactionAbortableError: Older(4, errors.InvalidTxnStateError),
    },
    "AddOffsetsToTxn": {
        **_NO_COORDINATOR,
        **_FENCED,
        errors.TransactionAbortableError: Older(4, errors.InvalidTxnStateError),
    },
    "EndTxn": {
        **_NO_COORDINATOR,
        **_FENCED,
        errors.TransactionAbortableError: Older(4, errors.InvalidTxnStateError),
    },
    "TxnOffsetCommit": {
        **_NO_COORDINATOR,
        # Producers of transactions know the codes of classic members alone.
        errors.StaleMemberEpochError: Older(ALWAYS, errors.IllegalGenerationError),
        errors.FencedMemberEpochError: Older(ALWAYS, errors.IllegalGenerationError),
        errors.GroupIdNotFoundError: Older(ALWAYS, errors.IllegalGenerationError),
        errors.ProducerFencedError: Older(ALWAYS, errors.InvalidProducerEpochError),
        errors.TransactionAbortableError: Older(4, errors.InvalidTxnStateError),
        # Below 2 a loading coordinator may crash the client (KAFKA-7296).
        errors.CoordinatorLoadInProgressError: Older(2, errors.CoordinatorNotAvailableError),
        errors.ConcurrentTransactionsError: Older(5, errors.CoordinatorLoadInProgressError),
    },
    **dict.fromkeys(
        (
            *("FindCoordinator", "ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
            *("OffsetDelete", "ListGroups", "DescribeGroups", "DeleteGroups"),
            *("DescribeTransactions", "ListTransactions"),
        ),
        _NO_COORDINATOR,
    ),
    "OffsetCommit": {
        **_NO_COORDINATOR,
        errors.GroupIdNotFoundError: Older(9, errors.IllegalGenerationError),
    },
    # Java before 3.9 expects no other of them. It looks for the coordinator again.
    "OffsetFetch": {
        errors.CoordinatorNotAvailableError: Older(ALWAYS, errors.NotCoordinatorError),
        errors.RequestTimedOutError: Older(ALWAYS, errors.NotCoordinatorError),
        errors.NetworkError: Older(ALWAYS, errors.NotCoordinatorError),
        errors.ResourceExhaustedError: Older(ALWAYS, errors.NotCoordinatorError),
    },
}


def code_of(error: ApiError | None, api: str = "", version: int = 0) -> int:
    """The number for an answer of the API in that version; 0 for no error. Without an API: the errors of a request as
    a whole, which clients read alike in all of them."""
    if error is None:
        return 0
    older = _OLDER.get((api, error.code))
    if older is not None:
        return older[1] if version < older[0] else error.code
    return _SUBSTITUTES.get(error.code, error.code)


def is_known(error: type[ApiError], api: str, version: int) -> bool:
    """True if clients of the API in that version are sent the code of the error itself."""
    older = _OLDER.get((api, error.code))
    return error.code not in _SUBSTITUTES if older is None else version >= older[0]


def message_of(error: ApiError | None) -> str | None:
    """The text, for versions that have a field for it."""
    return None if error is None else error.message[:MESSAGE_CHARS_MAX]


def leader_of(error: ApiError | None, listener: str) -> LeaderHint | None:
    """The leader that the error names, as the clients of a listener reach it; None unless it says who leads now. The
    endpoint is None if the leader has no such listener, or is not known to this node."""
    if error is None or error.leader is None or error.code not in _LEADER_CODES:
        return None
    return error.leader.at(listener)


def _number(instead: Instead) -> int:
    return int(instead) if isinstance(instead, Code) else instead.code


_LEADER_CODES: Final = frozenset({errors.NotLeaderOrFollowerError.code, errors.FencedLeaderEpochError.code})
_SUBSTITUTES: Final = {error.code: _number(row.code) for error, row in EVERYWHERE.items()}
_OLDER: Final = {
    (api, error.code): (first, _number(row.code))
    for error, row in EVERYWHERE.items()
    for api, first in row.known.items()
} | {(api, error.code): (row.below, _number(row.code)) for api, rows in IN_API.items() for error, row in rows.items()}
