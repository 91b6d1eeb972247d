"""The four messages of SCRAM as text, and back (RFC 5802, section 7). Pure.

    client first   n,,n=USER,r=CLIENT_NONCE            server first   r=BOTH_NONCES,s=SALT,i=ITERATIONS
    client final   c=biws,r=BOTH_NONCES,p=PROOF        server final   v=SIGNATURE   or   e=ERROR

`n,,` says that the client binds to no channel, `biws` is the same in base64. Nobody here binds to one: `y,,` (a client
that could) is taken, `p=` (one that insists) is refused. Unknown extensions are ignored, as the RFC wants. Two are
refused: `m=`, by the RFC, and Kafka's `tokenauth=true`, since there are no delegation tokens.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import field
from typing import Final

from penstock.lazy_dataclass import dataclass
from penstock.sasl.credentials import SALT_BYTES_MAX, USERNAME_BYTES_MAX
from penstock.sasl.refusal import SaslRefusedError

MESSAGE_BYTES_MAX: Final = 8_192
"""Several times that of the longest name, nonce and salt."""
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,512}")
_ITERATIONS: Final = re.compile(r"[1-9][0-9]{0,8}")
_BARE_EQUALS: Final = re.compile(r"=(?!2C|3D)")


@dataclass(frozen=True, slots=True)
class ClientFirst:
    username: str
    nonce: str
    gs2_header: str = "n,,"

    @property
    def bare(self) -> str:
        """The part that is signed."""
        return f"n={encoded_name(self.username)},r={self.nonce}"


@dataclass(frozen=True, slots=True)
class ServerFirst:
    nonce: str
    salt: bytes = field(repr=False)
    iterations: int

    def __str__(self) -> str:
        return f"r={self.nonce},s={_base64(self.salt)},i={self.iterations}"


@dataclass(frozen=True, slots=True)
class ClientFinal:
    gs2_header: str
    nonce: str
    proof: bytes = field(repr=False, default=b"")

    @property
    def without_proof(self) -> str:
        """The part that is signed."""
        return f"c={_base64(self.gs2_header.encode())},r={self.nonce}"

    def __str__(self) -> str:
        return f"{self.without_proof},p={_base64(self.proof)}"


def server_final(signature: bytes) -> str:
    return f"v={_base64(signature)}"


def encoded_name(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


# -- read --------------------------------------------------------------------------------------------------------------


def text_of(message: bytes) -> str:
    """The message as text, if it may be one."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise SaslRefusedError(f"a SCRAM message of {len(message)} bytes; must be at most {MESSAGE_BYTES_MAX}")
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslRefusedError("a SCRAM message must be UTF-8") from None
    if "\0" in text:
        raise SaslRefusedError("a SCRAM message must not have a zero byte")
    return text


@dataclass(frozen=True, slots=True)
class ReceivedClientFirst:
    """The parts of a client's first message that a server needs. `bare` is as it was sent, extensions and all."""

    username: str
    nonce: str
    gs2_header: str
    bare: str


def read_client_first(message: bytes) -> ReceivedClientFirst:
    text = text_of(message)
    flag, _, rest = text.partition(",")
    authzid, _, bare = rest.partition(",")
    if flag.startswith("p="):
        raise SaslRefusedError("the client asks for channel binding, which is not supported")
    if flag not in ("n", "y") or "," not in bare:
        raise SaslRefusedError("a SCRAM dialogue begins with n,,n=USER,r=NONCE")
    name, nonce, *extensions = bare.split(",")
    _check_extensions((name, *extensions))
    username = _decoded_name(_value(name, "n"))
    if authzid and _decoded_name(_value(authzid, "a")) != username:
        raise SaslRefusedError("the client wants to act as another user than it logs in as, which is not supported")
    return ReceivedClientFirst(username, _nonce(nonce), f"{flag},{authzid},", bare)


def read_server_first(message: bytes) -> ServerFirst:
    parts = text_of(message).split(",")
    _check_extensions(parts)
    _check_no_error(parts[0])
    if len(parts) < 3:
        raise SaslRefusedError("a SCRAM server's first message is r=NONCE,s=SALT,i=ITERATIONS")
    nonce, salt, iterations = _nonce(parts[0]), _bytes(_value(parts[1], "s")), _value(parts[2], "i")
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise SaslRefusedError(f"a salt of {len(salt)} bytes; must be from 1 to {SALT_BYTES_MAX}")
    if not _ITERATIONS.fullmatch(iterations):
        raise SaslRefusedError("the number of iterations is none")
    return ServerFirst(nonce, salt, int(iterations))


def read_client_final(message: bytes) -> tuple[ClientFinal, str]:
    """The client's final message, with its part before the proof as it was sent."""
    without_proof, comma, proof = text_of(message).rpartition(",")
    parts = without_proof.split(",")
    _check_extensions(parts)
    if not comma or len(parts) < 2:
        raise SaslRefusedError("a SCRAM client's last message is c=BINDING,r=NONCE,p=PROOF")
    try:
        gs2_header = _bytes(_value(parts[0], "c")).decode("ascii")
    except UnicodeDecodeError:
        raise SaslRefusedError("the channel binding must be ASCII in base64") from None
    return ClientFinal(gs2_header, _nonce(parts[1]), _bytes(_value(proof, "p"))), without_proof


def read_server_final(message: bytes) -> bytes:
    """The server's signature; raises if the server sent an error in its place."""
    first = text_of(message).split(",")[0]
    _check_no_error(first)
    return _bytes(_value(first, "v"))


def _check_no_error(part: str) -> None:
    if part.startswith("e="):
        raise SaslRefusedError(f"the server refused the log-in: {part[2:80]}")


def _value(part: str, letter: str) -> str:
    if not part.startswith(f"{letter}=") or len(part) == 2:
        raise SaslRefusedError(f"a SCRAM message has {part[:1]!r} where {letter}= must be")
    return part[2:]


def _nonce(part: str) -> str:
    nonce = _value(part, "r")
    if not _NONCE.fullmatch(nonce):
        raise SaslRefusedError("a nonce must have 1 to 512 printable ASCII characters, without commas")
    return nonce


def _decoded_name(encoded: str) -> str:
    if _BARE_EQUALS.search(encoded):
        raise SaslRefusedError("in a name of a SCRAM message, = must be written =3D, and a comma =2C")
    name = encoded.replace("=2C", ",").replace("=3D", "=")
    if len(name.encode()) > USERNAME_BYTES_MAX:
        raise SaslRefusedError(f"a user's name must have at most {USERNAME_BYTES_MAX} bytes")
    return name


def _check_extensions(parts: list[str] | tuple[str, ...]) -> None:
    if any(part.startswith("m=") for part in parts):
        raise SaslRefusedError("a SCRAM message asks for an extension (m=) that is not supported")
    if "tokenauth=true" in parts:
        raise SaslRefusedError("delegation tokens are not supported; log in as a user")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise SaslRefusedError("a SCRAM message has a value that is not base64") from None
