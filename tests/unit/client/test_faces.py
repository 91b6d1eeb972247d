"""The two faces of a client say the same of each call, once: signature, docstring, and errors about arguments."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pydoc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock import (
    Admin,
    AsyncAdmin,
    AsyncAtomicBatches,
    AsyncAtomicWriter,
    AsyncConsumer,
    AsyncProducer,
    AsyncTransaction,
    AtomicBatches,
    AtomicWriter,
    Consumer,
    Producer,
    TopicPartition,
    Transaction,
)
from tests.support.fake_broker import FakeCluster
from tests.support.fake_transactions import FakeTransactions

PAIRS = [(Admin, AsyncAdmin), (Consumer, AsyncConsumer), (Producer, AsyncProducer), (AtomicBatches, AsyncAtomicBatches)]
PARTS = [(Transaction, AsyncTransaction), (AtomicWriter, AsyncAtomicWriter)]
"""Handed out by a client, which is reached already: they have no `start`."""
FACES = [face for pair in (*PAIRS, *PARTS) for face in pair]
OWN_ARGUMENTS = {"close"}
"""A plain client closes within a time limit; an async one ends with the `asyncio.timeout` around it."""


def methods(face: type[Any]) -> dict[str, Callable[..., Any]]:
    return {name: m for name, m in vars(face).items() if inspect.isfunction(m) and not name.startswith("_")}


def written(face: type[Any]) -> Iterator[str]:
    """The docstrings of methods that stand in the module of a face."""
    tree = ast.parse(Path(inspect.getfile(face)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield text


@pytest.mark.parametrize(("plain", "asynchronous"), PAIRS + PARTS)
def test_both_faces_have_the_same_calls_with_the_same_arguments(plain: type[Any], asynchronous: type[Any]) -> None:
    ours, theirs = methods(plain), methods(asynchronous)
    assert set(theirs) - set(ours) == ({"start"} if (plain, asynchronous) in PAIRS else set()) and not set(ours) - set(
        theirs
    )
    for name in set(ours) - OWN_ARGUMENTS:
        here, there = inspect.signature(ours[name]), inspect.signature(theirs[name])
        assert here.parameters == there.parameters, name
    assert not [name for name, method in ours.items() if inspect.iscoroutinefunction(method)]


def test_help_says_which_face_of_a_writer_begins() -> None:
    for batches, writer in ((AtomicBatches, AtomicWriter), (AsyncAtomicBatches, AsyncAtomicWriter)):
        assert inspect.signature(batches.begin).return_annotation == writer | None


def test_a_block_sends_by_what_a_subclass_has_made_of_its_producer() -> None:
    sent: list[str] = []

    class CountingProducer(Producer):
        def send(self, topic: str, *args: Any, **more: Any) -> Any:
            sent.append(topic)
            return super().send(topic, *args, **more)

    with FakeCluster() as cluster:
        cluster.create_topic("t", 1)
        cluster.transactions = FakeTransactions(cluster)
        with CountingProducer(cluster.bootstrap, transactional_id="x") as producer, producer.transaction() as block:
            block.send("t", b"v", partition=0)
            with pytest.raises(TypeError, match=r"^Transaction\.send\(\) got an unexpected keyword argument 'ky'"):
                cast(Any, block.send)("t", b"v", ky=b"k")
    assert sent == ["t"]


def without_spaces(text: str) -> str:
    """From Python 3.13 on, help breaks a long signature at its commas; from 3.14 on, it writes types without quotes."""
    return "".join(text.split()).replace(",)", ")").replace("'", "")


@pytest.mark.parametrize("face", FACES)
def test_help_has_each_method_by_its_own_name_with_its_signature_and_what_it_does(face: type[Any]) -> None:
    for name, method in methods(face).items():
        assert method.__qualname__ == f"{face.__name__}.{name}"
        page = pydoc.plain(pydoc.render_doc(method))
        assert without_spaces(f"{name}{inspect.signature(method)}") in without_spaces(page)
        assert method.__doc__ and method.__doc__.splitlines()[0] in page


@pytest.mark.parametrize(("plain", "asynchronous"), PAIRS)
def test_a_docstring_of_both_faces_is_written_once(plain: type[Any], asynchronous: type[Any]) -> None:
    assert not set(written(plain)) & set(written(asynchronous))


def test_an_error_about_arguments_names_the_method_that_was_called() -> None:
    with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        create: Any = admin.create_topic
        with pytest.raises(TypeError, match=r"^Admin\.create_topic\(\) got an unexpected keyword argument 'replicas'$"):
            create("t", replicas=3)
        with pytest.raises(
            TypeError, match=r"^Admin\.create_topic\(\) missing 1 required positional argument: 'name'$"
        ):
            create()
    with FakeCluster() as cluster, Consumer(cluster.bootstrap) as consumer:
        seek: Any = consumer.seek
        with pytest.raises(TypeError, match=r"^Consumer\.seek\(\) missing 1 required positional argument: 'offset'$"):
            seek(TopicPartition("t", 0))


def test_a_call_of_an_async_client_belongs_to_the_loop_of_its_first_use() -> None:
    with FakeCluster() as cluster:
        consumer = AsyncConsumer(cluster.bootstrap)

        async def first() -> None:
            with pytest.raises(TypeError, match=r"^AsyncConsumer\.lag\(\) missing 1 required positional argument"):
                await cast(Any, consumer.lag)()
            assert inspect.iscoroutinefunction(AsyncConsumer.lag)
            await consumer.close()

        async def second() -> None:
            with pytest.raises(RuntimeError, match="the event loop on which it was first used"):
                await consumer.partitions_for("t")

        asyncio.run(first())
        asyncio.run(second())
