"""AlterUserScramCredentials and DescribeUserScramCredentials: the users that may log in with a password (KIP-554).

A user is there as long as it has a credential. Passwords are never sent: a client makes the keys of its password.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.types import NO_OFFSET


class ScramDeletion(NamedTuple):
    """`mechanism` is the number that came; the controller judges it."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential that the user has from then on, in place of the one of that mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(cls, user: str, made: ScramCredential) -> ScramUpsertion:
        return cls(user, made.mechanism.value, made.iterations, made.salt, made.stored_key, made.server_key)

    def credential(self, mechanism: ScramMechanism) -> ScramCredential:
        """`mechanism` is that of the number."""
        return ScramCredential(mechanism, self.iterations, self.salt, self.stored_key, self.server_key)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsRequest:
    """All changes of one user are made together, or none is."""

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AlteredUser:
    user: str
    error: ApiError | None = None
    is_gone: bool = False
    """The error is that none of the credentials to delete is there; nothing was to be set."""


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsResponse:
    """One result for each user that the request names."""

    users: tuple[AlteredUser, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsRequest:
    """No user means all of them, in pages: those behind `after` in their order."""

    users: tuple[str, ...] = ()
    after: str = ""


class ScramCredentialInfo(NamedTuple):
    """The public part of a credential."""

    mechanism: int
    iterations: int

    @property
    def mechanism_name(self) -> str:
        known = {one.value: one.sasl_name for one in ScramMechanism}
        return known.get(self.mechanism, f"unknown ({self.mechanism})")


@dataclass(frozen=True, slots=True)
class DescribedUser:
    user: str
    credentials: tuple[ScramCredentialInfo, ...] = ()
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsResponse:
    """The users, in the order of the request, or by name; `has_more` if there are users behind the last one."""

    users: tuple[DescribedUser, ...] = ()
    has_more: bool = False
    metadata_offset: int = NO_OFFSET
