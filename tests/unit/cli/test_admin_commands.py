"""`penstock configs`, `penstock topics offsets|delete-records|producers`: wrong usage is named before anybody asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from penstock.cli.configs import alter, describe
from penstock.cli.edge.places import parse_partition, parse_places
from penstock.cli.elect_leaders import elect_leaders
from penstock.cli.records import delete_records, offsets, parse_time_ms, producers
from penstock.errors import ConfigError
from penstock.messages.produce import ProducerState
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster

BAD_CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "nothing to change"),
    "no value": ({"to_set": ["segment.ms"]}, "--set segment.ms: must be key=value"),
    "twice set": ({"to_set": ["a=1", "a=2"]}, "--set a=2: a is given twice"),
    "set and deleted": ({"to_set": ["a=1"], "to_unset": ["a"]}, "a: named more than once"),
    "deleted twice": ({"to_unset": ["a", "a"]}, "a: named more than once"),
    "deleted with a value": ({"to_unset": ["a=1"]}, "--unset a=1: must be a key alone"),
    "no item": ({"to_append": ["a"]}, "--append a: must be key=value"),
}


@pytest.mark.parametrize("row", BAD_CHANGES)
def test_a_change_that_says_nothing_or_two_things_is_refused(row: str) -> None:
    options, says = BAD_CHANGES[row]
    with pytest.raises(ConfigError, match=says):
        alter(["t"], **options)


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"topics": ["t"], "broker": 1},
        {"broker": 1, "broker_default": True},
        {"topics": ["t"], "broker_default": True},
        {"topics": ["t"], "client_metrics": "tills"},
    ],
)
def test_a_configuration_is_that_of_one_thing(target: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="give one of TOPIC, --broker ID, --broker-default and --client-metrics NAME"):
        alter(**target, to_set=["a=1"])
    with pytest.raises(ConfigError, match="give one of TOPIC, --broker ID, --broker-default and --client-metrics NAME"):
        describe(**target)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        yield running


def test_brokers_are_altered_and_described_by_id_or_all_at_once(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {"to_set": ["log.retention.ms=5"], "to_unset": ["log.roll.ms"]}
    alter(broker=2, **changes, bootstrap=cluster.bootstrap)
    alter(broker_default=True, **changes, bootstrap=cluster.bootstrap, as_json=True)
    alter(broker=2, **changes, bootstrap=cluster.bootstrap, dry_run=True)
    said = capsys.readouterr().out.splitlines()
    assert [said[0], said[-1]] == [
        "altered broker 2: log.retention.ms, log.roll.ms",
        "would alter broker 2: log.retention.ms, log.roll.ms",
    ]
    assert json.loads("".join(said[1:-1])) == {
        "broker": None,
        "keys": ["log.retention.ms", "log.roll.ms"],
        "altered": True,
    }
    asked = [(one.resources[0].resource_type, one.resources[0].resource_name) for one in cluster.alterations]
    assert asked == [("broker", "2"), ("broker", ""), ("broker", "2")]
    describe(broker=2, bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out.splitlines() == [
        "key\tvalue\tsource\tread-only",
        "log.retention.ms\t5\tDYNAMIC_BROKER_CONFIG\tno",
        "node.id\t2\tSTATIC_BROKER_CONFIG\tyes",
    ]
    describe(broker_default=True, bootstrap=cluster.bootstrap, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {key: (value["value"], value["source"]) for key, value in found.items()} == {
        "log.retention.ms": ("5", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    }


BAD_DELETIONS: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({}, "give either"),
    "both": ({"before_offset": 0, "everything": True}, "give either"),
}


@pytest.mark.parametrize("row", BAD_DELETIONS)
def test_a_deletion_says_what_goes_in_one_way(row: str) -> None:
    options, says = BAD_DELETIONS[row]
    with pytest.raises(ConfigError, match=says):
        delete_records(["t"], **options)


def test_a_time_is_a_number_or_iso_8601() -> None:
    assert parse_time_ms("1700000000000") == 1_700_000_000_000
    assert parse_time_ms("2023-11-14T22:13:20Z") == 1_700_000_000_000
    assert parse_time_ms("2023-11-14T23:13:20.5+01:00") == 1_700_000_000_500
    assert parse_time_ms("2023-11-14") == int(datetime(2023, 11, 14).timestamp() * 1000), "local, as people mean it"
    for bad in ("", "-1", "soon", "2023-13-01", "١٢٣"):
        with pytest.raises(ConfigError, match="--time"):
            parse_time_ms(bad)
    with pytest.raises(ConfigError, match="max-timestamp"):
        offsets(["t"], time="newest")


BAD_ELECTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({}, "give either"),
    "both": ({"names": ["t"], "everything": True}, "give either"),
    "a partition of two topics": ({"names": ["t", "u"], "partition": [0]}, "-p needs exactly one topic"),
    "unclean without a terminal": ({"names": ["t"], "unclean": True}, "stdin is no terminal to ask on: add --yes"),
    "a partition of all": ({"everything": True, "partition": [0]}, "-p needs exactly one topic"),
}


@pytest.mark.parametrize("row", BAD_ELECTIONS)
def test_an_election_says_of_which_partitions(row: str) -> None:
    options, says = BAD_ELECTIONS[row]
    with pytest.raises(ConfigError, match=says):
        elect_leaders(**options)


def test_producers_are_a_line_each(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("t", 2)
    state = ProducerState(7, 1, 41, 1_700_000_000_000, 3, 39)
    without_any = replace(state, coordinator_epoch=None, transaction_start_offset=None)
    cluster.known_producers = {TopicPartition("t", 1): [state], TopicPartition("t", 0): [without_any]}
    producers(["t"], bootstrap=cluster.bootstrap)
    header, without, line = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    names = ["partition", "producer_id", "epoch", "last_sequence", "last_append", "coordinator_epoch", "open_from"]
    assert header == names
    assert (line[:4], line[5:]) == (["1", "7", "1", "41"], ["3", "39"])
    assert without[5:] == ["-", "-"]
    producers(["t"], [1], bootstrap=cluster.bootstrap, as_json=True)
    fields = {"producer_id": 7, "producer_epoch": 1, "last_sequence": 41, "last_append_ms": 1_700_000_000_000}
    fields |= {"coordinator_epoch": 3, "transaction_start_offset": 39}
    assert json.loads(capsys.readouterr().out) == [{"topic": "t", "partition": 1, **fields}]
    cluster.known_producers = {}
    producers(["t"], [0], bootstrap=cluster.bootstrap, as_json=True)
    assert json.loads(capsys.readouterr().out) == []


def test_records_of_several_topics_are_looked_at_and_deleted_in_one_command(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("t", "u"):
        cluster.create_topic(topic, 2)
        cluster.append(topic, 0, build_batch([b"v"] * 3, timestamps_ms=0))
    offsets(["t:0", "u"], bootstrap=cluster.bootstrap)
    rows = [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()]
    assert rows == [["topic", "partition", "offset"], ["t", "0", "3"], ["u", "0", "3"], ["u", "1", "0"]]
    delete_records(["t", "u:0"], everything=True, dry_run=True, bootstrap=cluster.bootstrap, as_json=True)
    plan = json.loads(capsys.readouterr().out)
    assert [(one["topic"], one["partition"], one["records"]) for one in plan] == [("t", 0, 3), ("t", 1, 0), ("u", 0, 3)]
    delete_records(["t:0", "u:0"], before_offset=2, bootstrap=cluster.bootstrap)
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows == [["topic", "partition", "low_watermark"], ["t", "0", "2"], ["u", "0", "2"]]
    with pytest.raises(ConfigError, match="each has its own offsets; choose one, like orders:0"):
        delete_records(["t"], before_offset=2, bootstrap=cluster.bootstrap)


def test_configs_of_several_topics_are_altered_and_described(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("t", "u"):
        cluster.create_topic(topic, 1)
    alter(["t", "u"], to_set=["retention.ms=5"], bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "altered t: retention.ms\naltered u: retention.ms\n"
    describe(["t", "u"], bootstrap=cluster.bootstrap)
    rows = [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()]
    assert rows == [["topic", "key", "value"], ["t", "retention.ms", "5"], ["u", "retention.ms", "5"]]
    alter(["t"], to_delete=["retention.ms"], validate_only=True, bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "would alter t: retention.ms\n", "the words of before"


def test_a_dry_run_of_an_election_names_the_partitions_that_need_one(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("t", 1)
    elect_leaders(["t"], dry_run=True, bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "topic\tpartition\tleader\telected\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [("orders:0", ("orders", 0)), ("orders-0", ("orders", 0)), ("a-b-12", ("a-b", 12)), ("a-1:2", ("a-1", 2))]
    + [(text, None) for text in ("orders", "orders:", "orders-", ":0", "-0", "a:b:1", "a:1,2", "orders:x")],
)
def test_a_partition_is_written_with_a_colon_or_a_dash(text: str, found: tuple[str, int] | None) -> None:
    assert parse_partition(text) == found


def test_places_are_topics_with_or_without_partitions_and_each_is_named_once() -> None:
    assert parse_places(["orders", "payments:0,2", "old-0"]) == {"orders": (), "payments": (0, 2), "old-0": ()}
    assert parse_places(["orders"], partitions=[1, 1]) == {"orders": (1,)}
    for texts, says in ((["a:"], "like orders:0,2"), (["a:0", "a:1"], "given twice"), (["a:0", "a"], "given twice")):
        with pytest.raises(ConfigError, match=says):
            parse_places(texts)
    with pytest.raises(ConfigError, match="-p needs exactly one topic"):
        parse_places(["a:0"], partitions=[1])
