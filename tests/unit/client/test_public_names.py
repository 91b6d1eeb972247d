"""Every type of Penstock that a public call takes or gives can be imported from a public module."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from types import ModuleType
from typing import Any, Final

import prometheus_client
import pyarrow as pa
import pytest

import penstock
import penstock.admin
import penstock.errors
import penstock.security
from penstock.security import AclBinding, Operation, PatternType, Permission, ResourceType

MODULES: Final[tuple[ModuleType, ...]] = (penstock, penstock.admin, penstock.security)
SEAM: Final = "environment"
"""The argument by which tests of Penstock itself give a client another clock, and another network."""


def exported() -> dict[str, Any]:
    return {f"{module.__name__}.{name}": getattr(module, name) for module in MODULES for name in module.__all__}


def public_types() -> set[Any]:
    errors = {value for value in vars(penstock.errors).values() if isinstance(value, type)}
    return {value for value in exported().values() if isinstance(value, type)} | errors


def is_value(kind: type[Any]) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, tuple | Enum | dict)


def callables(kind: type[Any]) -> Iterator[Callable[..., Any]]:
    """The methods that users call; of a value its properties, for its fields are annotations."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if name.startswith("_") and not (name == "__init__" and kind in FACES):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield member.fget
        elif not is_value(kind):
            member = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            if inspect.isfunction(member):
                yield member


FACES: Final = frozenset(
    getattr(penstock, name)
    for kind in ("Admin", "Consumer", "Producer", "AtomicBatches", "RecordProcessor")
    for name in (kind, f"Async{kind}")
)
"""The classes that users make by calling them; everything else with methods is given by a call of these."""


def of_penstock(annotation: Any) -> Iterator[type[Any]]:
    """The types of Penstock that an annotation names."""
    for inner in typing.get_args(annotation):
        for one in inner if isinstance(inner, list | tuple) else (inner,):
            yield from of_penstock(one)
    found = typing.get_origin(annotation) or annotation
    if isinstance(found, type) and found.__module__.partition(".")[0] == "penstock":
        yield found


def hints(what: Any) -> dict[str, Any]:
    known = {"pa": pa, "ProcessingCollector": penstock.RecordProcessor, "CollectorRegistry": prometheus_client}
    return {name: hint for name, hint in typing.get_type_hints(what, localns=known).items() if name != SEAM}


def signatures(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, type):
        if inspect.isfunction(value):
            yield from ((f"{name}({argument})", hint) for argument, hint in hints(value).items())
        return
    if is_value(value):
        yield from ((f"{name}.{field}", hint) for field, hint in hints(value).items() if not field.startswith("_"))
    for call in callables(value):
        yield from ((f"{name}.{call.__name__}({argument})", hint) for argument, hint in hints(call).items())


def test_every_type_of_a_public_signature_has_a_public_name() -> None:
    public = public_types()
    hidden = {
        f"{kind.__module__}.{kind.__qualname__}, of {where}"
        for name, value in exported().items()
        for where, annotation in signatures(name, value)
        for kind in of_penstock(annotation)
        if kind not in public
    }
    assert not hidden, "\n".join(sorted(hidden))


def test_a_name_stands_in_one_public_module() -> None:
    names = [name for module in MODULES for name in module.__all__]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_names_are_sorted_and_there(module: ModuleType) -> None:
    assert all(hasattr(module, name) for name in module.__all__)


def test_an_acl_allows_by_name_from_every_host_unless_it_says_otherwise() -> None:
    acl = AclBinding(ResourceType.TOPIC, "orders", "User:shop", Operation.WRITE)
    assert (acl.permission, acl.host, acl.pattern_type) == (Permission.ALLOW, "*", PatternType.LITERAL)
    assert str(acl) == "allow User:shop from every host: Write on topic 'orders'"


def test_an_acl_with_its_words_in_another_order_is_refused() -> None:
    swapped: Any = (ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:shop", "*", Operation.READ)
    with pytest.raises(TypeError, match="operation must be an Operation, not 'User:shop'"):
        AclBinding(*swapped)


def test_an_acl_is_taken_in_the_order_of_release_0_1_as_well() -> None:
    place: Any = (ResourceType.TOPIC, "orders", PatternType.PREFIXED)
    old: Any = ("User:shop", "10.0.0.1", Operation.READ, Permission.DENY)
    assert AclBinding(*place, *old) == AclBinding(
        ResourceType.TOPIC, "orders", "User:shop", Operation.READ, Permission.DENY, "10.0.0.1", PatternType.PREFIXED
    )
