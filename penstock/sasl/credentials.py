"""A user's credential for SCRAM as a server keeps it, and the stand-in of a user that it does not have. Pure.

    salted_password = PBKDF2-HMAC(password, salt, iterations)        RFC 5802, Hi()
    stored_key      = H(HMAC(salted_password, "Client Key"))
    server_key      = HMAC(salted_password, "Server Key")

Who reads a credential can neither log in with it nor get the password but by guessing: each guess costs `iterations`
hashes. Passwords are UTF-8 as they were typed, without SASLprep: so do Kafka and its clients.

An unknown user gets a stand-in, so that a stranger who asks for names learns nothing: its salt is made from the name
and a secret of the cluster, so that all brokers give the same one each time. No password fits it.
Not here: where credentials are kept (`metadata/`).
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from dataclasses import field
from enum import Enum
from typing import Final, Protocol

from penstock.errors import UnacceptableCredentialError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import ANONYMOUS_USER

ITERATIONS_MIN: Final = 4_096
"""RFC 7677's. A client refuses fewer, so that a server that lies gets nothing that is easily guessed from."""
ITERATIONS_MAX: Final = 16_384
"""Kafka's. A broker computes as many for each log-in by PLAIN."""
USERNAME_BYTES_MAX: Final = 512
USER_SHOWN: Final = 64
"""The part of a user's name that an error shows."""
PASSWORD_BYTES_MAX: Final = 1_024
SALT_BYTES: Final = 32
"""The size of a salt that is made here."""
SALT_BYTES_MAX: Final = 1_024
SECRET_BYTES: Final = 32


class ScramMechanism(Enum):
    """The hashes of SCRAM that are in use; the value is Kafka's number (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """SCRAM-SHA-256, as in the register of SASL's mechanisms."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Python's name of it."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @property
    def key_bytes(self) -> int:
        """The size of a salted password, and of each key."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    def hashed(self, data: bytes) -> bytes:
        """H()."""
        return hashlib.new(self.hash_name, data).digest()

    def keyed(self, key: bytes, data: bytes) -> bytes:
        """HMAC()."""
        return hmac.digest(key, data, self.hash_name)

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hi(): takes some milliseconds."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """One user's, for one mechanism."""

    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of_password(cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
        return cls.of_salted(mechanism, mechanism.salted(password, salt, iterations), salt, iterations)

    @classmethod
    def of_salted(cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """The credential of a salted password, which is all that Kafka's clients send (KIP-554)."""
        stored_key = mechanism.hashed(client_key_of(mechanism, salted))
        return cls(mechanism, iterations, salt, stored_key, server_key_of(mechanism, salted))

    @classmethod
    def stand_in(cls, mechanism: ScramMechanism, username: str, secret: bytes) -> ScramCredential:
        """The credential of a user that does not exist; `secret` is the cluster's."""
        made = (hmac.digest(secret, f"{mechanism.sasl_name} {word} {username}".encode(), "sha512") for word in _WORDS)
        salt, stored_key, server_key = made
        size = mechanism.key_bytes
        return cls(mechanism, ITERATIONS_MIN, salt[:SALT_BYTES], stored_key[:size], server_key[:size])

    def is_of(self, password: str) -> bool:
        """True for the password that it was made of. Takes some milliseconds."""
        salted = self.mechanism.salted(password, self.salt, self.iterations)
        stored_key = self.mechanism.hashed(client_key_of(self.mechanism, salted))
        return hmac.compare_digest(stored_key, self.stored_key)


_WORDS: Final = ("salt", "stored", "server")


class Credentials(Protocol):
    """A server's view of its users."""

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        """The user's, or a stand-in. The caller cannot tell which, and need not."""
        ...


def client_key_of(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return mechanism.keyed(salted, b"Client Key")


def server_key_of(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return mechanism.keyed(salted, b"Server Key")


def check_user_name(user: str) -> None:
    """UnacceptableCredentialError for one that no log, table or ACL could show as it is."""
    if not user:
        raise UnacceptableCredentialError("a user must have a name")
    if user == ANONYMOUS_USER:
        raise UnacceptableCredentialError(
            f"{user} is who has shown no certificate and given no password; no user may have the name: choose another"
        )
    if len(user.encode()) > USERNAME_BYTES_MAX:
        raise UnacceptableCredentialError(f"a user's name must have at most {USERNAME_BYTES_MAX} bytes")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in user):
        raise UnacceptableCredentialError(f"a user's name must not have control characters: {user[:USER_SHOWN]!r}")
