"""`penstock topics describe`: one topic or all, every partition or those in trouble; numbers for people and pipes."""

from __future__ import annotations

import io
import json
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest
import typer

from penstock.cli.output import count, when
from penstock.cli.topic_changes import alter, create, delete, parse_assignment
from penstock.cli.topics import PartitionChoice, describe, list_topics, partition_row
from penstock.client.admin.admin_types import PartitionInfo, TopicDescription
from penstock.errors import ConfigError, TopicExistsError, UnknownTopicOrPartitionError
from tests.support.fake_broker import FakeCluster


def partition(number: int, *, leader: int = 0, isr: tuple[int, ...] = (0, 1)) -> PartitionInfo:
    return PartitionInfo(number, leader, 0, 0, (0, 1), isr)


def test_only_the_partitions_in_trouble_are_wanted() -> None:
    sound, short, down = partition(0), partition(1, isr=(0,)), partition(2, leader=-1, isr=(1,))
    topic = TopicDescription("t", "id", (sound, short, down))
    assert PartitionChoice().part_of(topic).partitions == (sound, short, down)
    assert PartitionChoice(under_replicated=True).part_of(topic).partitions == (short, down)
    assert PartitionChoice(unavailable=True).part_of(topic).partitions == (down,)
    assert PartitionChoice(under_replicated=True, unavailable=True).part_of(topic).partitions == (short, down)


def test_all_topics_are_described_in_one_table_and_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("b", 1)
        cluster.create_topic("a", 2)
        describe(None, False, False, cluster.bootstrap, False)
        rows = [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()]
        assert rows == [["topic", "partition"], ["a", "0"], ["a", "1"], ["b", "0"]]
        describe(None, False, False, cluster.bootstrap, True)
        topics = json.loads(capsys.readouterr().out)
        assert [(topic["name"], len(topic["partitions"])) for topic in topics] == [("a", 2), ("b", 1)]
        describe(None, False, True, cluster.bootstrap, True)
        assert json.loads(capsys.readouterr().out) == []


def test_log_dirs_are_described_to_people_who_ask_and_always_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("a", 1)
        for names in (["a"], None):
            describe(names, False, False, cluster.bootstrap, False, True)
            *_, header, row = (line.split("\t") for line in capsys.readouterr().out.splitlines())
            assert (header[-2:], row[-1]) == (["elr", "log dirs"], "dir-1")
            describe(names, False, False, cluster.bootstrap, False)
            *_, header, row = (line.split("\t") for line in capsys.readouterr().out.splitlines())
            assert header[-1] == "elr" and len(row) == len(header)
        describe(["a"], False, False, cluster.bootstrap, True)
        assert json.loads(capsys.readouterr().out)["partitions"][0]["log_dirs"] == ["dir-1"]


def test_a_log_dir_that_is_not_known_yet_has_a_mark_of_its_own() -> None:
    assert partition_row(replace(partition(0), log_dirs=("", "b")))[-1] == "?,b"
    assert partition_row(partition(0))[-1] == "?", "an older broker does not say"


def test_numbers_are_for_people_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{count(1234567)} {when(1_700_000_000_123)}" == "1234567 1700000000123"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert f"{count(1234567)}" == "1,234,567"
    assert f"{when(1_700_000_000_123)}".startswith("2023-11-1") and ".123" in f"{when(1_700_000_000_123)}"


def test_a_topic_is_altered_and_a_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("t", 1)
        alter(["t"], 3, "2,1", True, cluster.bootstrap)
        assert capsys.readouterr().out == "t could have 3 partitions; it has 1, and nothing was changed\n"
        assert len(cluster.logs) == 1
        alter(["t"], 3, "2,1", False, cluster.bootstrap)
        assert capsys.readouterr().out == "altered t: 3 partitions\n"
        alter(["t"], 4, "", False, cluster.bootstrap, True)
        printed = json.loads(capsys.readouterr().out)
        assert [p["leader_id"] for p in printed["partitions"]] == [1, 2, 1, 1] and printed["dry_run"] is False


def test_a_topic_is_created_with_an_assignment(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(2) as cluster:
        create(["t"], replica_assignment="2:1,1:2", bootstrap=cluster.bootstrap, as_json=True)
        assert [p["replicas"] for p in json.loads(capsys.readouterr().out)["partitions"]] == [[2, 1], [1, 2]]


@pytest.mark.parametrize("text", ["1:", ":1", "1,,2", "a", "1:-2", "1;2", "1.5", ","])
def test_an_assignment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--replica-assignment .*like 1:2:3,2:3:1"):
        parse_assignment(text)


def test_an_assignment_has_a_list_for_each_partition() -> None:
    assert parse_assignment("") is None
    assert parse_assignment("0:1:2,1:2:0") == [[0, 1, 2], [1, 2, 0]]
    assert parse_assignment("5") == [[5]]


def test_a_terminal_shows_partitions_and_replicas_and_a_script_gets_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("orders", 3)
        list_topics(bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == "orders\n"
        list_topics(bootstrap=cluster.bootstrap, as_json=True)
        assert json.loads(capsys.readouterr().out) == ["orders"]
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        list_topics(True, cluster.bootstrap)
        assert capsys.readouterr().out == "orders\n"
        list_topics(bootstrap=cluster.bootstrap)
        said = capsys.readouterr().out
    assert all(word in said for word in ("topic", "partitions", "replicas", "orders", "3"))


def test_several_topics_are_created_altered_described_and_deleted_in_one_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FakeCluster(2) as cluster:
        create(["a", "b", "a"], partitions=2, bootstrap=cluster.bootstrap, as_json=True)
        assert [
            (one["name"], len(one["partitions"]), one["created"]) for one in json.loads(capsys.readouterr().out)
        ] == [
            ("a", 2, True),
            ("b", 2, True),
        ]
        alter(["a", "b"], 3, bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == "altered a: 3 partitions\naltered b: 3 partitions\n"
        describe(["b", "a"], bootstrap=cluster.bootstrap)
        rows = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
        assert rows == ["topic", *["b"] * 3, *["a"] * 3]
        delete(["a", "b"], bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == "deleted a\ndeleted b\n" and not cluster.logs


def test_the_error_of_one_of_several_topics_says_which_were_done_before() -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("b", 1)
        with pytest.raises(TopicExistsError) as caught:
            create(["a", "b", "c"], bootstrap=cluster.bootstrap)
        assert caught.value.__notes__ == ["before that: created a"]


def test_a_topic_that_is_there_or_is_not_is_no_error_where_the_command_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("a", 1)
        create(["a"], if_not_exists=True, bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out.startswith("a is there already: 1 partitions, ")
        delete(["b", "a"], if_exists=True, bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == "deleted a\nb does not exist; there is nothing to delete\n"
        with pytest.raises(UnknownTopicOrPartitionError):
            delete(["a"], bootstrap=cluster.bootstrap)


def test_a_dry_run_of_a_deletion_says_what_would_go_and_deletes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("a", 2)
        delete(["a"], dry_run=True, bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out.startswith("would delete a: 2 partitions, id ")
        create(["b"], dry_run=True, bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == "b could be created; nothing was changed\n"
        list_topics(bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize(("answer", "is_left"), [("n\n", True), ("y\n", False)])
def test_a_person_at_a_terminal_sees_what_goes_and_is_asked(
    answer: str, is_left: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    with FakeCluster(2) as cluster:
        cluster.create_topic("a", 2)
        with pytest.raises(typer.Abort) if is_left else nullcontext():
            delete(["a"], bootstrap=cluster.bootstrap)
        said = capsys.readouterr()
        assert (
            "a: 2 partitions, id " in said.err and "Delete a and all records of them? It cannot be undone." in said.err
        )
        list_topics(bootstrap=cluster.bootstrap)
        assert capsys.readouterr().out == ("a\n" if is_left else "")
        monkeypatch.setattr(sys, "stdin", terminal)
        cluster.create_topic("c", 1)
        delete(["c"], yes=True, bootstrap=cluster.bootstrap)
        assert not capsys.readouterr().err


def test_topics_are_listed_by_a_pattern_that_matches_their_names_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(1) as cluster:
        for name in ("orders-a", "orders-b", "old-orders-a"):
            cluster.create_topic(name, 1)
        list_topics(bootstrap=cluster.bootstrap, pattern="orders-.*")
        assert capsys.readouterr().out == "orders-a\norders-b\n"
        with pytest.raises(ConfigError, match=r"--pattern \(: missing \)"):
            list_topics(bootstrap=cluster.bootstrap, pattern="(")
