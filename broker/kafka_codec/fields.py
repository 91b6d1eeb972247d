"""The declarations of fields: the kind on the wire, and the versions that have it, make it nullable or tag it.

    name: str = string("0-12", ignorable=True)      # a field of the versions 0 to 12
    topics: list[Topic] | None = array(Topic, null="1+")
    rack: str | None = string("1+", null="1+", default=None)
    leader: Leader = nested(Leader, "10+", tag=0)

No versions mean all of the message's. A value for a version that lacks the field is dropped where the field is
`ignorable`, and refused otherwise unless it is the default. Tags ascend in a class, as they do on the wire. Each
function is typed as what it stands for in a class (structs.py), where type checkers see a plain attribute. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from penstock.lazy_dataclass import dataclass

VERSION_MAX: Final = 0x7FFF
Bytes = bytes | memoryview
"""Read as a memoryview of the frame; written from either."""
MISSING: Final = object()
"""No default was declared: the kind's own is meant."""

FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "float64": "d",
    "boolean": "?",
    "uuid": "16s",
}
"""Kinds of one size, and how `struct` calls them."""
_EMPTY: Final[dict[str, Any]] = {
    "string": "",
    "uuid": "",
    "bytes": b"",
    "records": None,
    "boolean": False,
    "float64": 0.0,
}


class Versions(NamedTuple):
    """A range of versions; both ends belong to it."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __repr__(self) -> str:
        return f"Versions({self.first}-{self.last})"


ALL: Final = Versions(0, VERSION_MAX)
NONE: Final = Versions(1, 0)


@cache
def versions(text: str) -> Versions:
    """The versions of `"3"`, `"3+"` or `"3-5"`; "" stands for no version."""
    if not text:
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


@dataclass(frozen=True, slots=True)
class WireField:
    """The declaration of one field; its name is the attribute's."""

    kind: str
    versions: Versions
    null: Versions
    tag: int | None
    ignorable: bool
    default: Any
    element: Any = None
    """The class of a struct, also of an array's; the kind of an array's other elements."""
    encoded: bool = False
    """Structs of the array may be given as the bytes of `encode_element`."""

    def __repr__(self) -> str:
        return f"WireField({self.kind}, {self.versions})"


def _field(
    kind: str,
    where: str,
    null: str,
    tag: int | None,
    ignorable: bool,
    default: Any,
    element: Any = None,
    encoded: bool = False,
) -> Any:
    if default is MISSING:
        default = _EMPTY.get(kind, 0)
    found = versions(where) if where else ALL
    return WireField(kind, found, versions(null), tag, ignorable, default, element, encoded)


def int8(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: int = 0) -> Any:
    return _field("int8", where, "", tag, ignorable, default)


def int16(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: int = 0) -> Any:
    return _field("int16", where, "", tag, ignorable, default)


def int32(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: int = 0) -> Any:
    return _field("int32", where, "", tag, ignorable, default)


def int64(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: int = 0) -> Any:
    return _field("int64", where, "", tag, ignorable, default)


def uint16(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: int = 0) -> Any:
    return _field("uint16", where, "", tag, ignorable, default)


def float64(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: float = 0.0) -> Any:
    return _field("float64", where, "", tag, ignorable, default)


def boolean(where: str = "", *, tag: int | None = None, ignorable: bool = False, default: bool = False) -> Any:
    return _field("boolean", where, "", tag, ignorable, default)


def uuid(where: str = "", *, tag: int | None = None, ignorable: bool = False) -> Any:
    """An id of 22 characters; "" is the zero uuid."""
    return _field("uuid", where, "", tag, ignorable, "")


def string(
    where: str = "", *, null: str = "", tag: int | None = None, ignorable: bool = False, default: str | None = ""
) -> Any:
    return _field("string", where, null, tag, ignorable, default)


def bytes_(
    where: str = "", *, null: str = "", tag: int | None = None, ignorable: bool = False, default: bytes | None = b""
) -> Any:
    """Bytes that the message holds: read as a `memoryview` of the frame."""
    return _field("bytes", where, null, tag, ignorable, default)


def records_(where: str = "", *, null: str = "", ignorable: bool = False) -> Any:
    """Record batches: read as a `memoryview` of the frame, and written as the object that they are. Null by default."""
    return _field("records", where, null, None, ignorable, None)


def array(
    element: type | Callable[..., Any],
    where: str = "",
    *,
    null: str = "",
    tag: int | None = None,
    ignorable: bool = False,
    default: object | None = MISSING,
    encoded: bool = False,
) -> Any:
    """A list of structs of the class `element`, or of the kind of that function (`array(int32)`). Empty by default.
    With `encoded`, what is written may have bytes in place of a struct (codec.py)."""
    kind = element if isinstance(element, type) else _KINDS[element]
    return _field("array", where, null, tag, ignorable, () if default is MISSING else None, kind, encoded)


def nested(
    struct: type,
    where: str = "",
    *,
    null: str = "",
    tag: int | None = None,
    ignorable: bool = False,
    default: object | None = MISSING,
) -> Any:
    """One struct; the default has the defaults of all its fields."""
    return _field("struct", where, null, tag, ignorable, MISSING_STRUCT if default is MISSING else None, struct)


MISSING_STRUCT: Final = object()
"""The default of a nested struct: a new one each time."""
_KINDS: Final[dict[Callable[..., Any], str]] = {
    function: kind
    for kind, function in {
        "int8": int8,
        "int16": int16,
        "int32": int32,
        "int64": int64,
        "uint16": uint16,
        "float64": float64,
        "boolean": boolean,
        "uuid": uuid,
        "string": string,
        "bytes": bytes_,
    }.items()
}
