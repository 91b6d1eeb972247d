"""How a record's field stands in its protobuf message, where that is not by its own name and type.

`message_codec.py` reads these marks. Not here: the types that it knows without a mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WIRE_NAME: Final = "penstock.wire_name"
NONE_FLAG: Final = "penstock.none_flag"


def on_wire(name: str) -> Mapping[str, Any]:
    """The field has this name in the message."""
    return {WIRE_NAME: name}


def none_if(flag: str) -> Mapping[str, Any]:
    """The field is None where the message's field `flag` is true; the message's own field is empty then."""
    return {NONE_FLAG: flag}


NOT_ON_WIRE: Final[Mapping[str, Any]] = {WIRE_NAME: None}
"""Metadata of a field that is not sent: the receiver of the record fills it in."""
