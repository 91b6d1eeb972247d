"""Source that builds a record of `penstock.messages` from values, for message_codec.py.

A frozen dataclass sets its slots one by one through `object.__setattr__`, which costs more than all that a record is
read for. Here the descriptors of the slots set them, as quick as an assignment. A record that does more in its
`__init__` than that, or has no slots, is called like any other class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import InvariantViolation


def building(record: Any, values: Mapping[str, str], names: dict[str, Any]) -> str:
    """The lines of a function that returns a record of these values; what they call is put into `names`."""
    names["_Record"] = record
    is_plain = dataclasses.is_dataclass(record) and "__slots__" in vars(record) and not hasattr(record, "__post_init__")
    if not is_plain or not values:
        return f"return _Record({', '.join(f'{name}={value}' for name, value in values.items())})"
    names["_new"] = object.__new__
    lines = ["o = _new(_Record)"]
    for field in dataclasses.fields(record):
        names[f"_set_{field.name}"] = getattr(record, field.name).__set__
        value = values.get(field.name)
        if value is None:
            names[f"_default_{field.name}"] = _default(record, field)
            value = f"_default_{field.name}()"
        lines.append(f"_set_{field.name}(o, {value})")
    return "\n    ".join([*lines, "return o"])


def _default(record: Any, field: dataclasses.Field[Any]) -> Callable[[], Any]:
    """The value of a field that does not stand on the wire."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is dataclasses.MISSING:
        raise InvariantViolation(f"{record.__name__}.{field.name} is not on the wire and has no default")
    return lambda: field.default
