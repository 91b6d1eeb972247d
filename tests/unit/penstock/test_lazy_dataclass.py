"""The promise is that a class cannot be told from one of the standard library, but by what has been compiled."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, field, fields, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pytest

from penstock.lazy_dataclass import LateMethod, dataclass

T = TypeVar("T")
METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__")


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 2


def declared(decorator: Callable[..., Any], **options: bool) -> Any:
    """A class with every kind of field."""

    @decorator(**options)
    class Declared:
        ANY: ClassVar[int] = 7
        a: int
        b: list[int] = field(default_factory=list, compare=False)
        c: InitVar[int] = 3
        d: str = field(default="d", repr=False)
        e: int = field(default=0, init=False, kw_only=True)

        def __post_init__(self, c: int) -> None:
            object.__setattr__(self, "e", c + 1)

    return Declared


def pending(cls: type) -> set[str]:
    return {name for name in METHODS if isinstance(vars(cls).get(name), LateMethod)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"frozen": True},
        {"slots": False, "order": True},
        {"frozen": True, "order": True, "slots": True},
        {"eq": False},
        {"repr": False, "frozen": True},
        {"kw_only": True, "frozen": True},
    ],
    ids=str,
)
def test_a_class_is_as_the_standard_library_makes_it(options: dict[str, bool]) -> None:
    lazy, plain = declared(dataclass, **options), declared(dataclasses.dataclass, **options)
    assert inspect.signature(lazy) == inspect.signature(plain)
    assert lazy.__match_args__ == plain.__match_args__ and lazy.ANY == 7
    assert [one.name for one in fields(lazy)] == [one.name for one in fields(plain)]
    for kind in (lazy, plain):
        assert not {name for name in METHODS if isinstance(getattr(kind, name), LateMethod)}
    for name in METHODS:
        assert (name in vars(lazy)) == (name in vars(plain)), name
        if not options.get("eq", True) or name not in vars(lazy) or vars(lazy)[name] is None:
            continue
        assert vars(lazy)[name].__qualname__ == vars(plain)[name].__qualname__
    seen = []
    for kind in (lazy, plain):
        one, same, other = kind(a=1), kind(a=1, b=[5]), kind(a=2, c=9, d="other")
        assert (one == same) is options.get("eq", True) and one != other and one != (1, "d", 4)
        seen.append((repr(other).replace(hex(id(other)), ""), one.e, other.e, one.b, other.d, kind.__hash__ is None))
        if options.get("order"):
            assert one < other and other >= one and one <= same and other > one
        with pytest.raises(TypeError, match="'a'"):
            kind()
    assert seen[0][1:] == seen[1][1:] and (seen[0][0] == seen[1][0] or not options.get("repr", True))


def test_nothing_is_compiled_that_nobody_uses() -> None:
    kind = declared(dataclass, frozen=True)
    assert pending(kind) == {"__init__", "__repr__", "__eq__", "__hash__"}
    one = kind(1)
    assert pending(kind) == {"__repr__", "__eq__", "__hash__"}
    assert len({one, kind(1)}) == 1
    assert pending(kind) == {"__repr__"}
    assert "a=1" in repr(one) and not pending(kind)


def test_threads_that_ask_at_once_get_methods_that_work() -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            kind = declared(dataclass, frozen=True)
            made = list(pool.map(kind, range(8)))
            assert [one.a for one in made] == list(range(8)) and len(set(made)) == 8


def test_a_frozen_one_refuses_to_change_and_is_copied_and_pickled() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 5  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'y'"):
        del point.y  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.z = 5  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__") and Point.__doc__ == "A point."
    assert replace(point, y=3) == Point(1, 3) and hash(Point(1)) == hash(point)
    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_a_plain_subclass_has_attributes_of_its_own() -> None:
    class Named(Point):
        name: str

    named = Named(1)
    named.name = "corner"
    del named.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        named.x = 5  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del named.x  # type: ignore[misc]
    assert named != Point(1) and repr(named) == f"{Named.__qualname__}(x=1, y=2)"


def test_methods_of_the_class_itself_stay() -> None:
    @dataclass(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "Own()"

    @dataclass(frozen=True)
    class Hashed:
        x: list[int]

        def __hash__(self) -> int:
            return 5

    assert Own(1) == Own(2) and repr(Own(1)) == "Own()" and hash(Own(1)) == hash((1,))
    assert hash(Hashed([])) == 5 and Hashed([1]) == Hashed([1])
    assert Own.__doc__ is None


def test_an_unfrozen_one_changes_and_has_no_hash() -> None:
    @dataclass
    class Counter:
        count: int = 0

    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_fields_are_inherited_and_bases_may_be_generic() -> None:
    class Sized(Protocol):
        def size(self) -> int: ...

    @dataclass(frozen=True)
    class Box(Generic[T]):
        inside: T

    @dataclass(frozen=True)
    class Crate(Box[int], Sized):
        width: int = 2

        def size(self) -> int:
            return self.inside * self.width

    assert Crate(3).size() == 6 and Crate(3) == Crate(3, 2) and repr(Crate(3)).endswith("Crate(inside=3, width=2)")


def test_declarations_that_the_standard_library_refuses_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass
        class Shared:
            items: list[int] = []  # noqa: RUF012
