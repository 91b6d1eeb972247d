"""The users' SCRAM credentials in the metadata: their table, their records, and the view for authentication.

A credential belongs to a user and a mechanism; there is nothing else to a user. The secret is the cluster's, so that
all brokers give the same stand-in for a user that there is not (penstock/sasl/credentials.py). Not here: which
credentials may be set (controller/users.py).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from metadata.codec import encode_record
from metadata.records import (
    Record,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    UserScramCredentialRecord,
)
from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.sasl.credentials import ScramCredential, ScramMechanism


class ScramKey(NamedTuple):
    """The owner of a credential, and its mechanism, by Kafka's number."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramImage:
    """All credentials at one offset. The mapping is shared between images and must never be written to."""

    credentials: Mapping[ScramKey, ScramCredential] = field(default_factory=dict)
    secret: str = field(default="", repr=False)  # "" before the first credential

    def of_user(self, user: str) -> list[ScramCredential]:
        """The credentials of a user by mechanism."""
        keys = (ScramKey(user, mechanism.value) for mechanism in ScramMechanism)
        return [self.credentials[key] for key in keys if key in self.credentials]


NO_SCRAM: Final = ScramImage()


class ScramTable:
    """The credentials of an image, and changes on top of it: they are copied with the first one."""

    def __init__(self, of_image: ScramImage) -> None:
        self._of_image = of_image
        self.credentials = of_image.credentials
        """The credentials by user and mechanism. No other part writes to this."""
        self._own: dict[ScramKey, ScramCredential] | None = None
        self.secret = of_image.secret

    @property
    def has_changed(self) -> bool:
        return self.credentials is not self._of_image.credentials or self.secret != self._of_image.secret

    def put(self, key: ScramKey, credential: ScramCredential) -> None:
        self._editable()[key] = credential

    def drop(self, key: ScramKey) -> None:
        del self._editable()[key]

    def replace(self, newer: ScramImage) -> None:
        """Replaces all credentials, and the secret, by these."""
        if newer.credentials != self.credentials:
            self.credentials, self._own = newer.credentials, None
        self.secret = newer.secret

    def image(self) -> ScramImage:
        """The image of now; the same object as before if nothing has changed."""
        if not self.has_changed:
            return self._of_image
        return ScramImage(self.credentials if self._own is None else dict(self._own), self.secret)

    def _editable(self) -> dict[ScramKey, ScramCredential]:
        if self._own is None:
            self.credentials = self._own = dict(self.credentials)
        return self._own

    def __repr__(self) -> str:
        return f"ScramTable({len(self.credentials)} credentials)"


class ImageCredentials:
    """The users of the newest image, for those who authenticate (`penstock.sasl.credentials.Credentials`)."""

    def __init__(self, scram: Callable[[], ScramImage]) -> None:
        self._scram = scram

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        """The user's, or a stand-in. Without a secret there is no user, and nothing to hide."""
        scram = self._scram()
        found = scram.credentials.get(ScramKey(username, mechanism.value))
        stand_in = ScramCredential.stand_in(mechanism, username, scram.secret.encode())
        return stand_in if found is None else found

    def __repr__(self) -> str:
        return f"ImageCredentials({len(self._scram().credentials)})"


def scram_records(scram: ScramImage) -> Iterator[Record]:
    """The records that make it, in an order that depends on nothing but its content."""
    if scram.secret:
        yield ScramSecretRecord(scram.secret)
    for key in sorted(scram.credentials):
        yield scram_record(key.user, scram.credentials[key])


def scram_seal(scram: ScramImage) -> str:
    """A hash of all that is secret in it."""
    hasher = hashlib.sha256()
    for record in scram_records(scram):
        hasher.update(encode_record(record) + b"\n")
    return f"sha256:{hasher.hexdigest()}"


def scram_record(user: str, credential: ScramCredential) -> UserScramCredentialRecord:
    found = (credential.salt, credential.stored_key, credential.server_key)
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in found)
    return UserScramCredentialRecord(
        user, credential.mechanism.value, credential.iterations, salt, stored_key, server_key
    )


def key_of(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> ScramKey:
    return ScramKey(record.name, record.mechanism)


def credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    """InvariantViolation for a mechanism that this node does not know, and for damage."""
    try:
        mechanism = ScramMechanism(record.mechanism)
        salt, stored, server = (
            base64.b64decode(text, validate=True) for text in (record.salt, record.stored_key, record.server_key)
        )
    except (ValueError, binascii.Error):
        raise InvariantViolation(f"{record}: its mechanism is not known, or a value is not base64") from None
    return ScramCredential(mechanism, record.iterations, salt, stored, server)
