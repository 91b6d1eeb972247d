"""Asks a real node at its two listeners, by gRPC and in Kafka's protocol, and gathers the error codes of the
answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from broker.kafka.schemas.table import REQUESTS, RESPONSES
from broker.kafka_codec.structs import facts_of
from penstock.errors import ApiError
from penstock.messages.apis import BY_REQUEST
from penstock.wire.error_trailer import error_in_trailer
from penstock.wire.message_codec import request_codec, response_codec
from tests.support.kafka_socket import KafkaSocket

TIMEOUT_S = 60
KEYS = {request: key for key, request in REQUESTS.items()}


def by_grpc(bootstrap: str, request: Any) -> Any:
    """The answer; ApiError for a call that failed."""
    api = BY_REQUEST[type(request)]
    with grpc.insecure_channel(bootstrap) as channel:
        call = channel.unary_unary(api.method)
        try:
            raw = call(request_codec(api).encode(request), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            found_error = error_in_trailer(error.trailing_metadata(), error.details())  # type: ignore[attr-defined]
            assert found_error is not None, error
            raise found_error from None
        return response_codec(api).decode(raw)


def grpc_codes(bootstrap: str, request: Any) -> set[int]:
    """The error codes in the answer, or the one of the call; {0} if there is none."""
    try:
        answer = by_grpc(bootstrap, request)
    except ApiError as error:
        return {error.code}
    outcomes = BY_REQUEST[type(request)].outcomes(answer)
    return {outcome.error.code for outcome in outcomes if outcome.error is not None} or {0}


def by_kafka(address: str, request: Any, version: int | None = None) -> Any:
    """The answer, in the last version of the request without another one."""
    newest = facts_of(type(request)).versions.last if version is None else version
    with KafkaSocket(address) as socket:
        return socket.ask(request, newest, RESPONSES[KEYS[type(request)]])


def kafka_codes(address: str, request: Any, version: int | None = None) -> set[int]:
    """The error codes in the answer; {0} if there is none."""
    return {code for code in codes_in(by_kafka(address, request, version)) if code} or {0}


def codes_in(value: Any) -> Iterator[int]:
    """Every error code of an answer, in lists and structs."""
    if isinstance(value, list):
        for one in value:
            yield from codes_in(one)
    for name in getattr(type(value), "__slots__", ()):
        if name in ("error_code", "partition_error_code"):
            yield getattr(value, name)
        yield from codes_in(getattr(value, name))


def eventually(ask: Callable[[], Any]) -> Any:
    """The answer, once there is one: an error after which one asks again does not end it for TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
