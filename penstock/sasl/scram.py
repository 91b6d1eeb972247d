"""Both halves of a SCRAM dialogue (RFC 5802; SHA-256: RFC 7677): the password never crosses the wire. Pure.

    client_key = HMAC(salted_password, "Client Key")
    proof      = client_key XOR HMAC(H(client_key), messages so far)        a client's, for this dialogue alone
    signature  = HMAC(server_key, messages so far)                          a server's, which thus knows the user, too

A half is used for one dialogue. Its maker gives the nonce, which must be random, and never used again.
"""

from __future__ import annotations

import hmac
from typing import Final

from penstock.sasl import scram_messages as messages
from penstock.sasl.credentials import (
    ITERATIONS_MIN,
    Credentials,
    ScramCredential,
    ScramMechanism,
    client_key_of,
    server_key_of,
)
from penstock.sasl.refusal import SaslRefusedError

CLIENT_ITERATIONS_MAX: Final = 1_000_000
"""Half a second of work, that a server may ask of a client."""
WRONG: Final = "the user's name or the password is wrong"
"""The refusal of a wrong password, and of a user that does not exist."""


class ScramClient:
    """A client's half."""

    def __init__(self, mechanism: ScramMechanism, username: str, password: str, nonce: str) -> None:
        self._mechanism, self._password = mechanism, password
        self._first = messages.ClientFirst(username, nonce)
        self._signature: bytes | None = None
        """The signature that the server must show."""
        self._is_begun = False
        self.is_done = False
        """The server has proved that it knows the user. Before that it may be anybody."""

    def respond(self, challenge: bytes | None = None) -> bytes | None:
        """The next message of the client; the first one for None. None when the dialogue has succeeded."""
        if not self._is_begun and challenge is None:
            self._is_begun = True
            return (self._first.gs2_header + self._first.bare).encode()
        if challenge is None or not self._is_begun or self.is_done:
            raise SaslRefusedError("the server has sent a SCRAM message that was not its turn")
        if self._signature is None:
            return self._prove(challenge)
        if not hmac.compare_digest(messages.read_server_final(challenge), self._signature):
            raise SaslRefusedError("the server has not proved that it knows the user; it may be another server")
        self.is_done = True
        return None

    def _prove(self, challenge: bytes) -> bytes:
        first = messages.read_server_first(challenge)
        if not first.nonce.startswith(self._first.nonce) or first.nonce == self._first.nonce:
            raise SaslRefusedError("the server has answered another dialogue: its nonce does not begin with ours")
        if not ITERATIONS_MIN <= first.iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslRefusedError(
                f"the server asks for {first.iterations} iterations; must be from {ITERATIONS_MIN} to "
                f"{CLIENT_ITERATIONS_MAX}"
            )
        final = messages.ClientFinal(self._first.gs2_header, first.nonce)
        spoken = f"{self._first.bare},{challenge.decode()},{final.without_proof}".encode()
        salted = self._mechanism.salted(self._password, first.salt, first.iterations)
        client_key = client_key_of(self._mechanism, salted)
        proof = _xor(client_key, self._mechanism.keyed(self._mechanism.hashed(client_key), spoken))
        self._signature = self._mechanism.keyed(server_key_of(self._mechanism, salted), spoken)
        return str(messages.ClientFinal(final.gs2_header, final.nonce, proof)).encode()

    def __repr__(self) -> str:
        return f"ScramClient({self._mechanism.sasl_name}, done: {self.is_done})"


class ScramServer:
    """A server's half."""

    refusal_message: bytes = b""
    ends_ms: int | None = None

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, nonce: str) -> None:
        self._mechanism, self._credentials, self._nonce = mechanism, credentials, nonce
        self._first: messages.ReceivedClientFirst | None = None
        self._answer = messages.ServerFirst("", b"", 0)
        self._credential: ScramCredential | None = None
        self._is_over = False
        self.username = ""
        """The user that the client claims to be; proved when `is_done`."""
        self.is_done = False

    def respond(self, message: bytes) -> bytes:
        """The answer to the client's next message. A dialogue that has raised is over."""
        if self._is_over:
            raise SaslRefusedError("the dialogue is over; begin another one")
        self._is_over = True
        if self._first is None or self._credential is None:
            answer = self._challenge(message)
            self._is_over = False
            return answer
        return self._check(message, self._first, self._credential)

    def _challenge(self, message: bytes) -> bytes:
        self._first = messages.read_client_first(message)
        self.username = self._first.username
        self._credential = credential = self._credentials.credential(self._mechanism, self.username)
        nonce = self._first.nonce + self._nonce
        self._answer = messages.ServerFirst(nonce, credential.salt, credential.iterations)
        return str(self._answer).encode()

    def _check(self, message: bytes, first: messages.ReceivedClientFirst, credential: ScramCredential) -> bytes:
        final, without_proof = messages.read_client_final(message)
        if final.gs2_header != first.gs2_header or final.nonce != self._answer.nonce:
            raise SaslRefusedError(
                "the client's last message is of another dialogue (librdkafka before 2.6.1 sends such; take a newer)"
            )
        spoken = f"{first.bare},{self._answer},{without_proof}".encode()
        signature = self._mechanism.keyed(credential.stored_key, spoken)
        if len(final.proof) != len(signature):
            raise SaslRefusedError(WRONG)
        client_key = _xor(final.proof, signature)
        if not hmac.compare_digest(self._mechanism.hashed(client_key), credential.stored_key):
            raise SaslRefusedError(WRONG)
        self.is_done = True
        return messages.server_final(self._mechanism.keyed(credential.server_key, spoken)).encode()

    def __repr__(self) -> str:
        return f"ScramServer({self._mechanism.sasl_name}, done: {self.is_done})"


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
