"""Classes whose fields carry their place on the wire: `struct` for a part of a message, `message` for a whole one.

    @message(key=3, versions="0-13", flexible="9+")
    class MetadataRequest:
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, null="1+")

Type checkers see dataclasses with keyword arguments that all have defaults. The classes have slots, and their
`__init__` is compiled when the first object is made: a process imports some four hundred of them and makes few kinds.
Not here: reading and writing them (codec.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, TypeVar, dataclass_transform

from broker.kafka_codec.fields import ALL, MISSING, MISSING_STRUCT, NONE, Versions, WireField
from broker.kafka_codec.fields import versions as _range
from penstock.lazy_dataclass import dataclass

T = TypeVar("T")
Reader = Callable[[memoryview, int, int], tuple[Any, int, int]]
Writer = Callable[[Any], list[Any]]
_OF_OUR_OWN: Final = ("__dict__", "__weakref__", "__annotations__")


@dataclass(slots=True, eq=False)
class Facts:
    """The place of a class on the wire, and what has been compiled for it so far, by version."""

    name: str
    fields: tuple[tuple[str, WireField], ...]
    key: int | None = None
    """The API of a request or a response; None for a part, and for what travels inside of bytes."""
    is_message: bool = False
    versions: Versions = ALL
    flexible: Versions = NONE
    readers: dict[int, Reader] = field(default_factory=dict)
    writers: dict[int, Writer] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Facts({self.name}, key={self.key}, versions={self.versions})"


def facts_of(cls: type) -> Facts:
    """A class without them was not declared by `struct` or `message`."""
    try:
        facts: Facts = cls.__dict__["__wire__"]
    except KeyError:
        raise TypeError(f"{cls.__name__} is no struct of the wire") from None
    return facts


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """A part of messages; the message around it decides the version and whether that is flexible."""
    return _made(cls)


@dataclass_transform(kw_only_default=True)
def message(*, key: int | None = None, versions: str, flexible: str = "") -> Callable[[type[T]], type[T]]:
    """A request or a response of the API `key`; without a key what other fields or records hold as bytes."""

    def of(cls: type[T]) -> type[T]:
        return _made(cls, key=key, is_message=True, versions=_range(versions), flexible=_range(flexible))

    return of


def _made(cls: type[T], **facts: Any) -> type[T]:
    fields = tuple((name, value) for name, value in vars(cls).items() if isinstance(value, WireField))
    body = {name: value for name, value in vars(cls).items() if not isinstance(value, WireField)}
    for name in _OF_OUR_OWN:
        body.pop(name, None)
    body.update(
        __slots__=tuple(name for name, _ in fields),
        __init__=_first_init,
        __eq__=_equal,
        __hash__=None,
        __repr__=_shown,
        __wire__=Facts(cls.__name__, fields, **facts),
    )
    return type(cls.__name__, (), body)  # slots cannot be added to a class that exists


def _first_init(self: Any, **values: Any) -> None:
    """Stands in for `__init__` until a first object is made."""
    cls = type(self)
    cls.__init__ = _compiled_init(facts_of(cls))
    cls.__init__(self, **values)


def _compiled_init(facts: Facts) -> Callable[..., None]:
    known: dict[str, Any] = {"MISSING": MISSING}
    heads, lines = [], []
    for name, declared in facts.fields:
        if declared.default is MISSING_STRUCT or declared.default == ():
            known[f"new_{name}"] = list if declared.kind == "array" else declared.element
            heads.append(f"{name}=MISSING")
            lines.append(f"    self.{name} = new_{name}() if {name} is MISSING else {name}")
        else:
            known[f"default_{name}"] = declared.default
            heads.append(f"{name}=default_{name}")
            lines.append(f"    self.{name} = {name}")
    star = "*, " if heads else ""
    source = f"def __init__(self, {star}{', '.join(heads)}):\n" + "\n".join(lines or ["    pass"])
    exec(source, known)
    init: Callable[..., None] = known["__init__"]
    return init


def _equal(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name, _ in facts_of(type(self)).fields)


def _shown(self: Any) -> str:
    values = (f"{name}={getattr(self, name)!r}" for name, _ in facts_of(type(self)).fields)
    return f"{type(self).__name__}({', '.join(values)})"
