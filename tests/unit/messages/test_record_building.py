"""A record that is built slot by slot is the one that its class makes, and one that does more is left to its class."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from penstock.errors import InvariantViolation
from penstock.messages.fields import NOT_ON_WIRE
from penstock.wire.message_codec import codec, message_descriptor


@dataclass(frozen=True, slots=True)
class Filled:
    name: str
    host: str
    port: int
    is_exposed: bool
    seen: list[int] = field(default_factory=list, metadata=NOT_ON_WIRE)
    age_ms: int = field(default=7, metadata=NOT_ON_WIRE)


@dataclass(frozen=True)
class WithoutSlots:
    is_exposed: bool
    port: int
    host: str
    name: str


@dataclass(frozen=True, slots=True)
class Checks:
    name: str
    host: str
    port: int
    is_exposed: bool

    def __post_init__(self) -> None:
        if self.port == 0:
            raise ValueError("no port")


@dataclass(frozen=True, slots=True)
class Unfilled:
    name: str
    host: str
    port: int
    is_exposed: bool
    age_ms: int = field(metadata=NOT_ON_WIRE)


def _built(record: Any, **values: Any) -> Any:
    listener = codec(record, message_descriptor("NodeListener"))
    return listener.of_message(listener.message(**values))


def test_fields_that_are_not_on_the_wire_have_their_defaults_each_its_own() -> None:
    one, other = (_built(Filled, name="n", host="h") for _ in range(2))
    assert one == other == Filled("n", "h", 0, False)
    assert one.seen is not other.seen and one.age_ms == 7
    with pytest.raises(FrozenInstanceError):
        one.port = 1


def test_a_record_without_slots_is_made_by_names() -> None:
    assert _built(WithoutSlots, name="n", is_exposed=True) == WithoutSlots(True, 0, "", "n")


def test_a_record_that_checks_itself_still_does() -> None:
    assert _built(Checks, port=1) == Checks("", "", 1, False)
    with pytest.raises(ValueError, match="no port"):
        _built(Checks, name="n")


def test_a_field_that_nothing_fills_refuses_to_start() -> None:
    with pytest.raises(InvariantViolation, match=r"Unfilled\.age_ms is not on the wire and has no default"):
        _built(Unfilled)
