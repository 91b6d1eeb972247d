"""`penstock reassignments`: what its arguments and its plan may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import TopicPartition
from penstock.cli.moves.reassignments import cancel, parse_moves, parse_plan, start
from penstock.errors import ConfigError


def test_a_move_names_a_partition_and_its_brokers() -> None:
    found = parse_moves(["orders:0=4,5,1", "a-b-12=3"])
    assert found == {TopicPartition("orders", 0): (4, 5, 1), TopicPartition("a-b", 12): (3,)}


@pytest.mark.parametrize(
    "move",
    [
        "orders",
        "orders-0",
        "orders=1",
        "-0=1",
        "orders-x=1",
        "orders-0=",
        "orders-0=1,,2",
        "orders-0=a",
        "-=1",
        ":0=1",
        "a:b:1=1",
    ],
)
def test_what_is_no_move_is_refused_with_an_example(move: str) -> None:
    with pytest.raises(ConfigError, match="like orders:0=4,5,1"):
        parse_moves([move])


def test_a_partition_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="orders-0 is given twice"):
        parse_moves(["orders-0=1", "orders:0=2"])
    row = {"topic": "orders", "partition": 0, "replicas": [1]}
    with pytest.raises(ConfigError, match="names orders-0 twice"):
        parse_plan(json.dumps({"partitions": [row, row]}), "plan")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    with pytest.raises(ConfigError, match="and on the command line"):
        start(["orders-0=2"], plan)


def test_a_plan_is_in_the_format_of_kafkas_tool() -> None:
    rows = [{"topic": "orders", "partition": 1, "replicas": [1, 2], "log_dirs": ["any", "any"]}]
    assert parse_plan(json.dumps({"version": 1, "partitions": rows}), "plan") == {TopicPartition("orders", 1): (1, 2)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON"),
        ("[]", "must be"),
        ('{"partitions": 3}', "must be"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "partition 0 of the list needs"),
        ('{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}', "partition 0 of the list needs"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}', "partition 0 of the list needs"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [true]}]}', "partition 0 of the list needs"),
    ],
)
def test_a_plan_that_says_something_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_plan(text, "plan")


def test_commands_that_say_nothing_or_too_much_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="or --plan FILE"):
        start()
    with pytest.raises(ConfigError, match="cannot be read"):
        start(plan=tmp_path / "nope")
    with pytest.raises(ConfigError, match="either topics or --all"):
        cancel()
    with pytest.raises(ConfigError, match="either topics or --all"):
        cancel(["orders"], everything=True)
    with pytest.raises(ConfigError, match="exactly one topic"):
        cancel(["a", "b"], partition=[1])
