"""Every error and every result of a client comes out of another process, a copy and a deep copy as it went in.

The table is found, not written: all subclasses of PenstockError in the package, and every class that a public method of
a client returns, or that stands in a field of such a class. A new one is tested from its first day.
"""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    Admin,
    AsyncAdmin,
    AsyncAtomicBatches,
    AsyncConsumer,
    AsyncProducer,
    AtomicBatches,
    BulkFuture,
    Consumer,
    Producer,
    RecordFuture,
)
from penstock.errors import ApiError, NetworkError, OffsetOutOfRangeError, PenstockError
from penstock.types import LeaderHint

PLAIN = (Producer, Consumer, Admin, AtomicBatches)
FACES = (*PLAIN, AsyncProducer, AsyncConsumer, AsyncAdmin, AsyncAtomicBatches, RecordFuture, BulkFuture)
WRITERS = {"AtomicWriter", "AsyncAtomicWriter"}
NO_RESULTS = {"RecordFuture", "BulkFuture", "Transaction", "AsyncTransaction", "GroupPositions", *WRITERS}
"""The values that only the process that sent the record, or has the clients, can keep."""
WITHOUT_THE_EXTRAS = ("penstock.spark", "penstock.pipelines", "penstock._server")


def subclasses(cls: type[PenstockError]) -> Iterator[type[PenstockError]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def errors() -> list[type[PenstockError]]:
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.startswith(WITHOUT_THE_EXTRAS) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {cls for cls in subclasses(PenstockError) if cls.__module__.startswith("penstock.")}
    return sorted(found - {ApiError}, key=lambda cls: (cls.__module__, cls.__qualname__))


def results() -> list[type[Any]]:
    """The classes of ours in the annotations of the faces' public methods, and what they are made of."""
    found: dict[type[Any], None] = {}
    for face in FACES:
        for name, method in inspect.getmembers(face, inspect.isfunction):
            if not name.startswith("_"):
                _find(typing.get_type_hints(method, _names(method)).get("return"), found)
    return sorted(found, key=lambda cls: cls.__qualname__)


def _names(method: Any) -> dict[str, Any]:
    """The method's module as a type checker sees it."""
    return {"pa": types.SimpleNamespace(Table=None), **vars(importlib.import_module(method.__module__))}


def _find(hint: Any, found: dict[type[Any], None]) -> None:
    for part in typing.get_args(hint):
        _find(part, found)
    is_ours = inspect.isclass(hint) and hint.__module__.startswith("penstock.") and hint not in FACES
    if not is_ours or hint in found or issubclass(hint, Exception) or hint.__name__ in NO_RESULTS:
        return
    found[hint] = None
    for field in typing.get_type_hints(hint).values():
        _find(field, found)


def sample(hint: Any) -> Any:
    """A value of the type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return sample(parts[0])
    if origin is typing.Literal:
        return parts[0]
    if origin is typing.ClassVar or hint is None or hint is type(None):
        return None
    if origin is tuple:
        return tuple(sample(part) for part in parts if part is not ...)
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection):
        return [sample(parts[0])]
    if origin in (dict, collections.abc.Mapping):
        return {sample(parts[0]): sample(parts[1])}
    if origin in (set, frozenset):
        return frozenset([sample(parts[0])])
    if hint in (int, float, str, bytes, bool):
        return {int: 7, float: 0.5, str: "text", bytes: b"bytes", bool: True}[hint]
    if inspect.isclass(hint) and issubclass(hint, PenstockError):
        return OffsetOutOfRangeError("text", log_start_offset=1, log_end_offset=2)
    if hint in (Any, object):
        return "anything"
    if hint is Path:
        return Path("/a/path")
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return hint(**{f.name: sample(hints[f.name]) for f in dataclasses.fields(hint) if f.init})  # type: ignore[operator]
    if inspect.isclass(hint) and issubclass(hint, tuple):
        hints = typing.get_type_hints(hint)
        return hint(**{name: sample(hints[name]) for name in hint._fields})  # type: ignore[attr-defined]
    if inspect.isclass(hint) and hasattr(hint, "__members__"):
        return next(iter(hint))
    raise AssertionError(f"no sample of {hint!r}: add one")


def made(cls: type[PenstockError]) -> PenstockError:
    """An error with a value for every argument of its constructor."""
    signature, hints = inspect.signature(cls.__init__), typing.get_type_hints(cls.__init__)
    if "args" in signature.parameters:  # Exception's own
        return cls("text")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        value = LeaderHint(1, 2) if name == "leader" else sample(hints[name])
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return cls(*positional, **named)


WAYS = {
    **{
        f"pickle {n}": lambda thing, n=n: pickle.loads(pickle.dumps(thing, n))
        for n in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "error_class" in metafunc.fixturenames:
        metafunc.parametrize("error_class", errors(), ids=lambda cls: cls.__qualname__)
    if "result_class" in metafunc.fixturenames:
        metafunc.parametrize("result_class", results(), ids=lambda cls: cls.__qualname__)


def test_an_error_round_trips_with_its_fields_and_notes(error_class: type[PenstockError]) -> None:
    error = made(error_class)
    error.nothing_written = True
    error.add_note("seen in worker 3")
    for way, passed_on in WAYS.items():
        again = passed_on(error)
        assert type(again) is error_class, way
        assert str(again) == str(error) and again.args == error.args, way
        assert repr(vars(again)) == repr(vars(error)), way


def test_a_result_round_trips(result_class: type[Any]) -> None:
    result = sample(result_class)
    for way, passed_on in WAYS.items():
        again = passed_on(result)
        assert type(again) is result_class and repr(again) == repr(result), way


def test_the_table_is_all_there() -> None:
    assert {"CorruptFileError", "TopicRecreatedError", "NodeFailedError", "NetworkError"} <= {
        e.__name__ for e in errors()
    }
    known = {
        "RecordMetadata",
        "ConsumerRecord",
        "TopicPartition",
        "ClusterHealth",
        "TopicDescription",
        "RawBuffer",
        "Waiting",
    }
    assert known <= {cls.__name__ for cls in results()}


def test_an_error_of_a_pool_is_the_error_that_was_raised() -> None:
    error = pickle.loads(pickle.dumps(NetworkError("gone", leader=LeaderHint(1, 2))))
    assert error.leader == LeaderHint(1, 2) and error.retriable
    assert type(error).__module__ == "penstock.errors" and PenstockError.__module__ == "penstock.errors"
