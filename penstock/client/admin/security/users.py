"""Users that log in with a password: how a user of Admin names changes, and what it is told (KIP-554).

A password does not leave the client: what is sent are the keys that are made of it (penstock/sasl/credentials.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from penstock.config_keys import did_you_mean
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.users import DescribedUser, ScramDeletion, ScramUpsertion
from penstock.sasl.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    PASSWORD_BYTES_MAX,
    ScramCredential,
    ScramMechanism,
)

MECHANISMS: Final = {one.sasl_name: one for one in ScramMechanism}
DEFAULT_MECHANISM: Final = ScramMechanism.SCRAM_SHA_256.sasl_name


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """The user has this password for the mechanism from then on. TypeError or ValueError for what cannot be one."""

    user: str
    password: str = field(repr=False)
    mechanism: str = DEFAULT_MECHANISM
    iterations: int = ITERATIONS_MIN

    def __post_init__(self) -> None:
        _check(self.user, self.mechanism)
        if not isinstance(self.password, str):
            raise TypeError(f"password must be a str, not {type(self.password).__name__}")
        if not 0 < len(self.password.encode()) <= PASSWORD_BYTES_MAX:
            raise ValueError(f"a password must have from 1 to {PASSWORD_BYTES_MAX} bytes")
        if type(self.iterations) is not int or not ITERATIONS_MIN <= self.iterations <= ITERATIONS_MAX:
            raise ValueError(f"iterations={self.iterations!r}: must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")

    def made(self, salt: bytes) -> ScramUpsertion:
        """Takes some milliseconds. `salt` is random."""
        mechanism = MECHANISMS[self.mechanism]
        credential = ScramCredential.of_password(mechanism, self.password, salt, self.iterations)
        return ScramUpsertion.of(self.user, credential)


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """The user can log in by the mechanism no more."""

    user: str
    mechanism: str = DEFAULT_MECHANISM

    def __post_init__(self) -> None:
        _check(self.user, self.mechanism)

    def made(self, salt: bytes) -> ScramDeletion:
        return ScramDeletion(self.user, MECHANISMS[self.mechanism].value)


UserScramCredentialAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


@dataclass(frozen=True, slots=True)
class UserDescription:
    """A user, and how it may log in: the iterations by the name of the mechanism."""

    user: str
    mechanisms: Mapping[str, int]

    @classmethod
    def of(cls, described: DescribedUser) -> UserDescription:
        return cls(described.user, {info.mechanism_name: info.iterations for info in described.credentials})


def checked_alterations(given: Sequence[UserScramCredentialAlteration]) -> tuple[UserScramCredentialAlteration, ...]:
    """The changes that a user gave. TypeError if they are not a list of such changes, ValueError if it is empty."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise TypeError(f"alterations must be a list, not {type(given).__name__}")
    for one in given:
        if not isinstance(one, UserScramCredentialUpsertion | UserScramCredentialDeletion):
            raise TypeError(
                "alterations must be UserScramCredentialUpsertion or UserScramCredentialDeletion, not "
                f"{type(one).__name__}"
            )
    if not given:
        raise ValueError("alterations is empty: name a change")
    return tuple(given)


def checked_users(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """The users that a caller named, or None for all. TypeError or ValueError if they are not names."""
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise TypeError(f"users must be a list of names, not {type(given).__name__}")
    for name in given:
        _check(name, DEFAULT_MECHANISM)
    return tuple(dict.fromkeys(given))


def _check(user: str, mechanism: str) -> None:
    if not isinstance(user, str):
        raise TypeError(f"a user's name must be a str, not {type(user).__name__}")
    if not user:
        raise ValueError("a user's name must not be empty")
    if mechanism not in MECHANISMS:
        raise ValueError(
            f"mechanism={mechanism!r}: must be one of {', '.join(MECHANISMS)}{did_you_mean(str(mechanism), MECHANISMS)}"
        )
