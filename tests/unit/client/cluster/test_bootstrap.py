"""Nobody there, a stranger there, silence there: one typed error within bounded time that names every address and
why.
"""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import grpc
import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.backoff import Backoff
from penstock.client.cluster.bootstrap import Ask, Bootstrap
from penstock.client.wire.tls_words import TLS_FAILED
from penstock.errors import (
    ApiError,
    BootstrapError,
    ClientClosedError,
    ClusterAuthorizationFailedError,
    NetworkError,
    PenstockError,
    SaslAuthenticationFailedError,
)
from penstock.messages.metadata import MetadataResponse
from penstock.types import Endpoint
from tests.support.fake_broker import FakeCluster
from tests.support.stranger import stranger
from tests.support.virtual_time import VirtualTimeLoop, run_virtual


async def first_answer(ask: Ask) -> tuple[float, object]:
    """How long it took, and the answer or the error."""
    loop = cast(VirtualTimeLoop, asyncio.get_running_loop())
    backoff, began = Backoff(100, 1_000, random.Random(1)), loop.time()
    bootstrap = Bootstrap([Endpoint("a", 1), Endpoint("b", 2)], ask, lambda _: False, 10_000, loop, backoff)
    try:
        found: object = await bootstrap.first_answer()
    except PenstockError as error:
        found = error
    return loop.time() - began, found


def test_refused_connections_are_all_named() -> None:
    with Admin("127.0.0.1:1,127.0.0.1:2", bootstrap_timeout_ms=200) as admin, pytest.raises(BootstrapError) as caught:
        admin.list_topics()
    assert "127.0.0.1:1" in str(caught.value) and "127.0.0.1:2" in str(caught.value)
    assert str(caught.value).endswith("BROKER listener of one that runs (9192 as a rule; 9092 is for Kafka's clients)")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\nhello", b"\x00\xff garbage" * 100, None])
def test_a_stranger_on_the_port_is_a_typed_error_in_bounded_time(answer: bytes | None) -> None:
    with (
        stranger(answer) as address,
        Producer(address, bootstrap_timeout_ms=300) as producer,
        pytest.raises(BootstrapError, match=address),
    ):
        producer.send("t", b"v")


@pytest.mark.parametrize(
    "page", [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n" * 9]
)
def test_a_port_for_metrics_is_told_to_be_no_client_listener(page: bytes) -> None:
    with (
        stranger(page) as address,
        Admin(address, bootstrap_timeout_ms=2_000) as admin,
        pytest.raises(BootstrapError, match=f"{address}: this is not a client listener: no gRPC is spoken there; "),
    ):
        admin.list_topics()


def test_a_listener_for_nodes_is_told_to_be_no_client_listener() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    message = f"{address}: this is not a client listener, or the node is older than this client: "
    with Admin(address, bootstrap_timeout_ms=2_000) as admin, pytest.raises(BootstrapError, match=message):
        admin.list_topics()
    server.stop(None).wait()


def test_one_living_address_is_enough() -> None:
    with FakeCluster(1) as cluster, stranger(None) as silent:
        cluster.create_topic("t")
        with Consumer(f"127.0.0.1:1,{silent},{cluster.bootstrap}") as consumer:
            assert consumer.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 0}


def test_a_name_that_does_not_resolve_is_named() -> None:
    with (
        Admin("no-such-host.invalid:9192", bootstrap_timeout_ms=500) as admin,
        pytest.raises(BootstrapError, match=r"no-such-host\.invalid"),
    ):
        admin.list_topics()


@pytest.mark.parametrize("refusal", [SaslAuthenticationFailedError, ClusterAuthorizationFailedError])
def test_a_user_that_a_broker_refuses_is_told_soon_and_with_the_brokers_error(refusal: type[ApiError]) -> None:
    """The other addresses are silent, and asking a broker again does not help."""
    asked: list[Endpoint] = []

    async def ask(endpoint: Endpoint, timeout_ms: int) -> MetadataResponse:
        asked.append(endpoint)
        if endpoint.port == 1:
            raise refusal("not this user")
        await asyncio.sleep(timeout_ms / 1000)
        raise NetworkError("silent")

    loop_s, error = run_virtual(first_answer(ask))
    assert type(error) is refusal and loop_s < 1
    assert asked.count(Endpoint("a", 1)) == 1


def test_a_user_that_one_broker_does_not_know_yet_is_served_by_another() -> None:
    async def ask(endpoint: Endpoint, timeout_ms: int) -> MetadataResponse:
        if endpoint.port == 1:
            raise SaslAuthenticationFailedError("not this user")
        await asyncio.sleep(0.2)
        return MetadataResponse("cluster", 0, (), (), 0)

    _, answer = run_virtual(first_answer(ask))
    assert isinstance(answer, MetadataResponse)


def test_an_address_whose_tls_fails_is_asked_once() -> None:
    asked: list[Endpoint] = []

    async def ask(endpoint: Endpoint, timeout_ms: int) -> MetadataResponse:
        asked.append(endpoint)
        raise NetworkError(f"{endpoint}: {TLS_FAILED}: the broker's certificate has expired")

    loop_s, error = run_virtual(first_answer(ask))
    assert isinstance(error, BootstrapError) and loop_s < 1
    assert "a:1: TLS failed: the broker's certificate has expired" in str(error)
    assert "start a node" not in str(error)
    assert len(asked) == 2


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_a_closed_client_opens_no_connection_again(client: type[Producer] | type[Consumer]) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 1)
        with client(cluster.bootstrap) as closed:
            pass
        with pytest.raises(ClientClosedError, match="this client is closed; make a new one"):
            closed.partitions_for("t")
