"""Decides on changes of SCRAM credentials: all changes of a user are made together, or none is (KIP-554).

The cluster's secret for the stand-ins of users that there are not is made with the first credential. Not here: how a
password becomes a credential (penstock/sasl/credentials.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.records import Record, RemoveUserScramCredentialRecord, ScramSecretRecord, UserScramCredentialRecord
from metadata.scram import ScramKey, scram_record
from penstock.errors import (
    ApiError,
    DuplicateResourceError,
    InvalidRequestError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from penstock.messages.security.users import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
)
from penstock.sasl.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MAX,
    USER_SHOWN,
    ScramMechanism,
    check_user_name,
)


def alter_user_scram_credentials(
    context: DecisionContext, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Results stand in the order in which the request names users first, deletions before upsertions."""
    changes: tuple[ScramDeletion | ScramUpsertion, ...] = (*request.deletions, *request.upsertions)
    if not changes:
        raise InvalidRequestError("the request names no user")
    context.check_item_count(len(changes), "credentials")
    records: list[Record] = []
    results = []
    by_user: dict[str, list[ScramDeletion | ScramUpsertion]] = {}
    for change in changes:
        by_user.setdefault(change.user, []).append(change)
    for user, own in by_user.items():
        try:
            records += _records(context, user, own)
            results.append(AlteredUser(user))
        except ApiError as error:
            results.append(AlteredUser(user, error, not any(_is_there(context, change) for change in own)))
    return ControllerResult((*_secret(context, records), *records), AlterUserScramCredentialsResponse(tuple(results)))


def bootstrap_users(
    context: DecisionContext, users: Sequence[UserScramCredentialRecord]
) -> ControllerResult[tuple[str, ...]]:
    """The names of the users that the cluster begins with: these, if it has never had any."""
    if not users or context.state.scram.secret:
        return ControllerResult((), ())
    records = tuple(users)
    return ControllerResult((*_secret(context, records), *records), tuple(sorted({user.name for user in users})))


def _records(context: DecisionContext, user: str, changes: list[ScramDeletion | ScramUpsertion]) -> list[Record]:
    times = Counter(change.mechanism for change in changes)
    if max(times.values()) > 1:
        raise DuplicateResourceError(f"user {user[:USER_SHOWN]!r} is named twice for one mechanism in the request")
    return [_deletion(context, one) if isinstance(one, ScramDeletion) else _upsertion(one) for one in changes]


def _is_there(context: DecisionContext, change: ScramDeletion | ScramUpsertion) -> bool:
    """The change is the deletion of a credential that there is, or none."""
    key = ScramKey(change.user, change.mechanism)
    return isinstance(change, ScramUpsertion) or key in context.state.scram.credentials


def _deletion(context: DecisionContext, asked: ScramDeletion) -> Record:
    mechanism = _mechanism(asked.mechanism)
    if ScramKey(asked.user, asked.mechanism) not in context.state.scram.credentials:
        raise ResourceNotFoundError(
            f"user {asked.user[:USER_SHOWN]!r} has no credential for {mechanism.sasl_name}; `penstock users list` shows"
            " which there are"
        )
    return RemoveUserScramCredentialRecord(asked.user, asked.mechanism)


def _upsertion(asked: ScramUpsertion) -> Record:
    mechanism = _mechanism(asked.mechanism)
    check_user_name(asked.user)
    if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_MAX:
        raise UnacceptableCredentialError(
            f"{asked.iterations} iterations; must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    if not 0 < len(asked.salt) <= SALT_BYTES_MAX:
        raise UnacceptableCredentialError(f"a salt of {len(asked.salt)} bytes; must be from 1 to {SALT_BYTES_MAX}")
    if not len(asked.stored_key) == len(asked.server_key) == mechanism.key_bytes:
        raise UnacceptableCredentialError(f"the keys of {mechanism.sasl_name} have {mechanism.key_bytes} bytes")
    return scram_record(asked.user, asked.credential(mechanism))


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        known = ", ".join(f"{one.value} ({one.sasl_name})" for one in ScramMechanism)
        raise UnsupportedSaslMechanismError(f"there is no SCRAM mechanism {number}; there are {known}") from None


def _secret(context: DecisionContext, records: Sequence[Record]) -> Iterator[Record]:
    """The record of the cluster's secret, with its first credential."""
    if records and not context.state.scram.secret:
        yield ScramSecretRecord(context.ids.new_id() + context.ids.new_id())
