"""Names are taken in turn, within a budget."""

from __future__ import annotations

from penstock.console.watching.rotation import Rotation


def test_names_are_taken_in_turn_and_each_once_a_round() -> None:
    turns = Rotation(budget=5)
    weights = {"a": 2, "b": 2, "c": 2, "d": 2, "e": 2}
    assert [turns.take(weights) for _ in range(3)] == [["a", "b"], ["c", "d"], ["e", "a"]]
    assert Rotation(budget=100).take(weights) == list("abcde")


def test_a_name_that_is_too_heavy_is_taken_alone_and_one_that_is_gone_is_passed() -> None:
    turns = Rotation(budget=5)
    assert turns.take({"a": 9, "b": 1}) == ["a"]
    assert turns.take({"b": 1, "c": 9}) == ["b"]
    assert turns.take({"a": 1}) == ["a"]
    assert turns.take({}) == []
    assert repr(turns) == "Rotation(5 a round, after 'a')"
