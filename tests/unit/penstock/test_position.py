"""A position: its text, what it compares with, what it refuses."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Position
from penstock.ids import system_ids

IDS = st.builds(lambda _: system_ids().new_id(), st.integers()) | st.text(min_size=1)
POSITIONS = st.builds(Position, IDS, st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))


@given(POSITIONS)
def test_every_position_comes_back_from_its_text_from_json_and_from_a_pickle(position: Position) -> None:
    assert Position.parse(str(position)) == position
    assert Position.parse(json.loads(json.dumps(str(position)))) == position
    assert pickle.loads(pickle.dumps(position)) == position == copy.deepcopy(position)
    assert repr(position) == f"Position(topic_id={position.topic_id!r}, offset={position.offset}, " + (
        f"leader_epoch={position.leader_epoch})"
    )


def test_json_does_not_take_a_position_for_a_bare_offset() -> None:
    with pytest.raises(TypeError):
        json.dumps(Position("id", 5))


@pytest.mark.parametrize(
    "text", ["", "5", "id:5", ":5:1", "id:-1:0", "id:5:-2", "id:5:x", "id:05:1", "id:5: 1", "id:5:1:", f"id:{2**63}:0"]
)
def test_a_text_that_no_position_made_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no position; one is written as topic id:offset:leader epoch"):
        Position.parse(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="not of int"):
        Position.parse(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [("id", "5"), ("id", 5.0), ("id", True), (7, 5), ("id", 5, "1")])
def test_a_field_of_another_type_is_refused(bad: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="the id is a str, offset and leader epoch are ints"):
        Position(*bad)  # type: ignore[arg-type]


@given(st.integers(0, 2**63 - 1), st.integers())
def test_it_compares_with_offsets_as_its_own_offset_does(offset: int, other: int) -> None:
    position = Position("id", offset, 3)
    assert (position == other, position != other) == (offset == other, offset != other)
    assert (position < other, position <= other) == (offset < other, offset <= other)
    assert (other < position, other >= position) == (other < offset, other >= offset)
    assert (position - other, other - position, int(position)) == (offset - other, other - offset, offset)
    assert hash(position) == hash(offset)


def test_positions_of_two_topics_have_no_order() -> None:
    one, other = Position("a", 5), Position("b", 6)
    assert one != other and Position("a", 5, 1) != one
    with pytest.raises(TypeError):
        _ = one < other
    with pytest.raises(TypeError):
        _ = other - one
    assert Position("a", 9) - one == 4


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Position("a", 5).offset = 6  # type: ignore[misc]
