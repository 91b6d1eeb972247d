"""A client belongs to the process that made it: in a child it refuses every use, and nothing of it is freed there."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from penstock import (
    Admin,
    AsyncAdmin,
    AsyncAtomicBatches,
    AsyncConsumer,
    AsyncProducer,
    AtomicBatches,
    Consumer,
    Producer,
)
from penstock.errors import ForkedClientError
from tests.support.fake_broker import FakeCluster
from tests.support.forked import in_child

CLIENTS = (Producer, Consumer, Admin, AtomicBatches, AsyncProducer, AsyncConsumer, AsyncAdmin, AsyncAtomicBatches)
NOWHERE = "127.0.0.1:1"


def public_methods(client: type[Any]) -> list[str]:
    """The methods that a user calls, and those of the language: iteration and `with`."""
    of_the_language = ("__enter__", "__aenter__", "__iter__", "__next__", "__aiter__", "__anext__")
    names = [name for name, member in inspect.getmembers_static(client) if inspect.isfunction(member)]
    return [name for name in names if (not name.startswith("_") or name in of_the_language) and name != "close"]


def refusal_of(client: Any, name: str) -> str:
    """The error that a call of the method raises; a coroutine is run to its first step."""
    method = getattr(client, name)
    try:
        found = method(*[None] * sum(p.default is p.empty for p in _parameters(method)))
        if inspect.iscoroutine(found):
            found.send(None)
    except ForkedClientError:
        return "refused"
    except BaseException as error:
        return repr(error)
    return "returned"


def _parameters(method: Any) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(method).parameters.values() if p.kind in kinds]


@pytest.mark.parametrize("kind", CLIENTS)
def test_every_method_of_an_inherited_client_is_refused_at_once(kind: type[Any]) -> None:
    client = kind(NOWHERE)
    names = public_methods(kind)
    assert len(names) > 3
    in_the_child = in_child(lambda: {name: refusal_of(client, name) for name in names})
    assert in_the_child == repr(dict.fromkeys(names, "refused"))


@pytest.mark.parametrize(
    ("kind", "use"), [(Producer, "statistics"), (AsyncConsumer, "assignment"), (Admin, "list_topics")]
)
def test_the_refusal_names_the_client_and_both_processes_and_the_remedy(kind: type[Any], use: str) -> None:
    client = kind(NOWHERE)
    in_the_child = in_child(getattr(client, use))
    assert in_the_child.startswith("ForkedClientError:") and "list_topics" not in in_the_child, (
        "a method taken before the fork"
    )
    in_the_child = in_child(lambda: getattr(client, use)())
    assert in_the_child.startswith(
        f"ForkedClientError: this {kind.__name__} was made in process {os.getpid()}, and this process ("
    )
    assert in_the_child.endswith(f"Make a new {kind.__name__} in the child")


@pytest.mark.parametrize("kind", (Producer, Consumer, Admin))
def test_the_end_of_a_with_block_in_a_child_leaves_the_parents_client_alone(kind: type[Any]) -> None:
    with kind(NOWHERE) as client:
        assert in_child(
            lambda: (client.__exit__(None, None, None), client.close(), repr(client), type(client).__name__)
        ) == (f"(None, None, '{kind.__name__}(inherited by a fork)', '{kind.__name__}')")
        assert isinstance(client, kind) and "inherited" not in repr(client)


def test_a_method_that_was_taken_before_the_fork_is_refused_too() -> None:
    producer = Producer(NOWHERE)
    send, poll = producer.send, Consumer(NOWHERE).poll
    for call in (lambda: send("t", b"v"), lambda: send("t", b"v", b"k"), lambda: poll(10)):
        assert in_child(call).startswith("ForkedClientError: this ")


def test_what_a_subclass_adds_refuses_as_well_and_keeps_its_own_attributes() -> None:
    class Orders(Producer):
        def __init__(self) -> None:
            super().__init__(NOWHERE)
            self.topic = "orders"

        def order(self, value: bytes) -> Any:
            return self.send(self.topic, value)

    orders = Orders()
    assert in_child(lambda: orders.order(b"v")).startswith("ForkedClientError: this Orders was made")
    assert in_child(lambda: orders.topic) == "'orders'"


def test_the_promise_of_a_record_is_refused_in_a_child_unless_it_was_kept_before() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        with Producer(cluster.bootstrap, linger_ms=0, request_timeout_ms=300) as producer:
            kept, bulk = producer.send("t", b"v"), producer.send_many("t", [b"v"])
            offset = kept.result(60).offset
            bulk.result(60)
            cluster.silence(1)
            open_one, open_bulk = producer.send("t", b"w"), producer.send_many("t", [b"w"])
            assert in_child(lambda: (kept.result().offset, bulk.result())) == f"({offset}, 1)"
            for use in (
                open_one.result,
                open_one.exception,
                open_bulk.result,
                open_bulk.exception,
                lambda: open_one.add_done_callback(print),
                lambda: open_bulk.add_done_callback(print),
                lambda: open_one.__await__().send(None),
                lambda: open_bulk.__await__().send(None),
            ):
                assert in_child(use).startswith("ForkedClientError: the record was sent before a fork")
            cluster.silence(1, on=False)


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_cannot_be_pickled_or_copied(kind: type[Any]) -> None:
    client = kind(NOWHERE)
    for work in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"a {kind.__name__}: a client belongs to the process that made it"):
            work(client)


def test_a_child_of_a_process_that_did_not_use_grpc_works_with_it() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from penstock.client.environment import given_or_system
from penstock.client.wire.channel import GrpcTransport
from penstock.types import Endpoint
def told(): print(given_or_system(None).transport, flush=True)
told()
if not os.fork(): told(); os._exit(0)
os.wait()
import asyncio
async def use():
    channel = GrpcTransport().connect(Endpoint("127.0.0.1", 1))
    channel.open_stream("/penstock.v1.Broker/Fetch").cancel()
    await channel.close()
asyncio.run(use())
if not os.fork():
    told()
    if not os.fork(): told(); os._exit(0)
    os.wait(); os._exit(0)
os.wait()
told()
"""
    assert run(code).split() == [
        "GrpcTransport()",
        "GrpcTransport()",
        "Http2Transport()",
        "Http2Transport()",
        "GrpcTransport()",
    ]


def test_a_user_who_wants_grpcs_own_support_of_forks_gets_clients_that_do_without_grpc() -> None:
    code = "from penstock.client.environment import given_or_system; print(given_or_system(None).transport)"
    assert run(code, GRPC_ENABLE_FORK_SUPPORT="1").strip() == "Http2Transport()"
    assert run(code, GRPC_ENABLE_FORK_SUPPORT="0").strip() == "GrpcTransport()"


def test_a_fork_with_grpcs_handlers_in_the_process_warns_once() -> None:
    code = """
import grpc, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
warnings.simplefilter("always", RuntimeWarning)
from penstock.client import forks
told = []
warnings.showwarning = lambda message, *others: told.append(str(message))
def fork():
    if not os.fork(): os._exit(0)
    os.wait()
fork(); forks.grpc_is_used_now(); fork(); fork()
print(told)
"""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    outcome = run(code, replace=environment)
    assert outcome.count("GRPC_ENABLE_FORK_SUPPORT was not 0 when another package imported gRPC") == 1


@pytest.mark.parametrize(("use", "collected"), [("", "[0, 1]\n"), ("forks.grpc_is_used_now()", "[1]\n")])
def test_a_child_collects_none_of_the_garbage_that_grpcs_library_may_have_left(use: str, collected: str) -> None:
    """To free a call or a channel of a closed client there is to wait for a lock of a thread that is gone."""
    code = f"""
import gc, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from penstock.client import forks
freed = []
class Cycle:
    def __init__(self, number):
        self.number, self.itself = number, self
    def __del__(self):
        freed.append(self.number)
gc.disable()
{use}
Cycle(0)
if not os.fork():
    Cycle(1)
    gc.collect()
    print(freed, flush=True)
    os._exit(0)
os.wait()
"""
    assert run(code) == collected


def run(code: str, replace: dict[str, str] | None = None, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**(os.environ if replace is None else replace), **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
