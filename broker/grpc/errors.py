"""Carries a typed error over gRPC if the message has no field for it, and translates gRPC's own failures. An edge.

A whole request that fails is a gRPC status with the wire code in its trailer (penstock/wire/error_trailer.py). So a
client in another language sees a proper status, and our own edges get the exact error back.
"""

from __future__ import annotations

import grpc
import grpc.aio

from penstock.base_error import without_frames
from penstock.errors import (
    ApiError,
    AuthenticationRequiredError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    InvalidTopicError,
    NetworkError,
    RequestTimedOutError,
    ResourceExhaustedError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    TopicExistsError,
    TransactionalIdAuthorizationFailedError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from penstock.wire.error_trailer import error_in_trailer, trailer_of
from penstock.wire.throttle_trailer import Throttled, throttle_trailer

DETAILS_CHARACTERS_MAX = 1_000
"""A status travels in HTTP/2 headers, which peers limit to 8 KiB: a longer text would cost the caller the error."""
NOT_THROTTLED = Throttled()

_STATUS: dict[type[ApiError], grpc.StatusCode] = {
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    InvalidTopicError: grpc.StatusCode.INVALID_ARGUMENT,
    TopicExistsError: grpc.StatusCode.ALREADY_EXISTS,
    UnknownTopicOrPartitionError: grpc.StatusCode.NOT_FOUND,
    ResourceExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    AuthenticationRequiredError: grpc.StatusCode.UNAUTHENTICATED,
    SaslAuthenticationFailedError: grpc.StatusCode.UNAUTHENTICATED,
    ClusterAuthorizationFailedError: grpc.StatusCode.PERMISSION_DENIED,
    GroupAuthorizationFailedError: grpc.StatusCode.PERMISSION_DENIED,
    TopicAuthorizationFailedError: grpc.StatusCode.PERMISSION_DENIED,
    TransactionalIdAuthorizationFailedError: grpc.StatusCode.PERMISSION_DENIED,
    NetworkError: grpc.StatusCode.UNAVAILABLE,
    RequestTimedOutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    UnknownServerError: grpc.StatusCode.INTERNAL,
}


async def abort(context: grpc.aio.ServicerContext, error: ApiError, throttled: Throttled = NOT_THROTTLED) -> None:
    """End the call with this error, and tell its client how long it waits then; does not return. The error keeps no
    frame alive, for those of a refused request have its bytes: they would stay until the cycle collector comes."""
    without_frames(error)
    status = _STATUS.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)
    await context.abort(status, error.message[:DETAILS_CHARACTERS_MAX], trailer_of(error) + throttle_trailer(throttled))


def from_rpc_error(error: grpc.aio.AioRpcError, peer: str) -> ApiError:
    """The typed error of a failed call to `peer`."""
    status, details = error.code(), error.details() or ""
    from_trailer = error_in_trailer(error.trailing_metadata(), details)
    if from_trailer is not None:
        return from_trailer
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RequestTimedOutError(f"{peer}: no answer in time")
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return ResourceExhaustedError(f"{peer}: {details}")
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return UnsupportedVersionError(f"{peer} does not know this call: {details}")
    if status in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN) and "penstock" in details.lower():
        return UnknownServerError(f"{peer}: {details}")
    return NetworkError(f"{peer}: {status.name.lower()}: {details}")
