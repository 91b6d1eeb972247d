"""`dataclass` as in the standard library, whose methods are compiled when they are first used.

The standard library writes the source text of up to six methods for each class, and compiles it when the class is made.
That was 45 % of the time that a node takes to load its code: 530 classes, most of which it neither makes, compares nor
prints. Here the standard library makes fields and slots at once, and `__init__`, `__repr__`, `__eq__`, `__hash__` and
the four orders each at its first use. The method is put where it would have been, and costs the same from then on.

A frozen class refuses a change by functions that are compiled already. Differences to the original: a frozen class may
not inherit from one of the original, nor the reverse, and a class without docstring gets no signature as its docstring.
Type checkers see the original.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

ORDERS = ("__lt__", "__le__", "__gt__", "__ge__")
NO_METHODS = {"init": False, "repr": False, "eq": False}
OPTIONS: dict[str, dict[str, bool]] = {
    "__init__": {"init": True},
    "__repr__": {"repr": True},
    "__eq__": {"eq": True},
    "__hash__": {"unsafe_hash": True},
    **{name: {"eq": True, "order": True} for name in ORDERS},
}
"""The arguments by which the standard library compiles a method, in addition to NO_METHODS."""
NO_TEXT = "-"
"""Keeps the standard library from looking for the signature of a class without docstring."""


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, order=False, frozen=False, kw_only=False, slots=False):
        """The decorator, with arguments or without."""

        def decorated(cls):
            wanted = ["__init__", *["__repr__"] * repr, *["__eq__"] * eq, *ORDERS * order]
            own_hash = cls.__dict__.get("__hash__")  # None, too, in a class that has its own __eq__
            made = _with_fields(cls, kw_only, slots)
            if eq and not own_hash:
                made.__hash__ = LateMethod(made, "__hash__", frozen) if frozen else None
            for name in wanted:
                if name not in cls.__dict__:
                    setattr(made, name, LateMethod(made, name, frozen))
            if frozen:
                _freeze(made, slots)
            return made

        return decorated if cls is None else decorated(cls)


class LateMethod:
    """Stands in a class for a method that nobody has used yet."""

    def __init__(self, cls: type, name: str, is_frozen: bool) -> None:
        self._cls, self._name, self._is_frozen = cls, name, is_frozen

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Puts the method into its own place. Threads that ask at once compile equal ones, and the last one stays."""
        method = _compiled(self._cls, self._name, self._is_frozen)
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _with_fields(cls: type, kw_only: bool, slots: bool) -> Any:
    has_text = bool(cls.__doc__)
    cls.__doc__ = cls.__doc__ or NO_TEXT
    made: Any = dataclasses.dataclass(**NO_METHODS, kw_only=kw_only, slots=slots)(cls)
    if not has_text:
        made.__doc__ = None
    return made


def _compiled(cls: Any, name: str, is_frozen: bool) -> Any:
    """The standard library's method, taken from another class with the same fields."""
    fields: dict[str, dataclasses.Field[Any]] = cls.__dataclass_fields__
    body: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": NO_TEXT}
    body["__annotations__"] = {field.name: field.type for field in fields.values()}
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = cls.__post_init__
    other = type(cls.__name__, (), body | fields)
    options = NO_METHODS | OPTIONS[name] | {"frozen": is_frozen and name == "__init__"}
    return vars(dataclasses.dataclass(**options)(other))[name]


def _freeze(cls: Any, slots: bool) -> None:
    names = cls.__dataclass_fields__

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if slots and "__getstate__" not in vars(cls):
        cls.__getstate__, cls.__setstate__ = _get_state, _set_state  # pickle would set attributes


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
