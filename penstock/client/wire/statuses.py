"""gRPC's status of a call that failed, made one of our errors.

Both transports end here (channel.py and http2_channel.py), so that a client tells the same whichever it works with. A
status is given by its name, because the second transport does not use gRPC's library. Not here: how a call ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client import descriptors
from penstock.client.wire.tls_words import closed_at_once, tls_trouble
from penstock.client.wire.transport import NO_CLIENT_LISTENER
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    MessageTooLargeError,
    NetworkError,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnknownServerError,
    UnsupportedVersionError,
)
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""The limit of one message, above every fetch_max_bytes and request of a sane configuration. It is limited because a
transport buffers a message."""
OTHER_PORT = "give a broker's port for clients, not one for metrics, controllers or other brokers"

_BY_STATUS: dict[str, type[ApiError]] = {
    "UNAVAILABLE": NetworkError,
    "CANCELLED": NetworkError,
    "ABORTED": NetworkError,
    "DEADLINE_EXCEEDED": RequestTimedOutError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "INVALID_ARGUMENT": InvalidRequestError,
    "UNAUTHENTICATED": ClusterAuthorizationFailedError,
    "PERMISSION_DENIED": ClusterAuthorizationFailedError,
}
_BROKEN_SIGNS = ("RST_STREAM", "GOAWAY", "Internal error from Core")
"""The words of gRPC, under codes that vary, when a connection died in mid-call."""
_NO_GRPC_SIGNS = ("Failed parsing HTTP/2", "http1.x server")
"""The words of gRPC where the peer speaks something else."""


def error_of_status(
    status: str,
    details: str,
    trailer: Iterable[tuple[str, str | bytes]] | None,
    endpoint: Endpoint,
    is_tls: bool = False,
) -> ApiError:
    """Our error for a call that did not end with OK; it names the endpoint."""
    from_trailer = error_in_trailer(trailer, details)
    if from_trailer is not None:
        return from_trailer  # the broker's own error, about the request as a whole
    if trouble := tls_trouble(details, endpoint, is_tls):
        return NetworkError(f"{endpoint}: {trouble}")
    if any(sign in details for sign in _NO_GRPC_SIGNS):
        return NetworkError(f"{endpoint}: {NO_CLIENT_LISTENER}: no gRPC is spoken there; {OTHER_PORT}")
    if status == "UNIMPLEMENTED":
        return UnsupportedVersionError(
            f"{endpoint}: {NO_CLIENT_LISTENER}, or the node is older than this client: the call is not known there"
            f" ({details}); {OTHER_PORT}"
        )
    if descriptors.SYSTEM_WORDS in details:
        return NetworkError(f"{endpoint}: {descriptors.shortage_text()}")
    cls = _BY_STATUS.get(status, UnknownServerError)
    if status == "RESOURCE_EXHAUSTED" and "larger than max" in details:
        cls = MessageTooLargeError
    elif cls is UnknownServerError and any(sign in details for sign in _BROKEN_SIGNS):
        cls = NetworkError
    return cls(f"{endpoint}: {status}: {details}{closed_at_once(details, is_tls)}")


def closed_by_broker(endpoint: Endpoint) -> NetworkError:
    """The error of a stream that its peer has ended in order."""
    return NetworkError(f"{endpoint}: the broker closed the stream")


def call_cancelled(endpoint: Endpoint) -> NetworkError:
    """The error of a call that was cancelled while the task that waits for it was not."""
    return NetworkError(f"{endpoint}: the call was cancelled")
