"""`penstock groups`: what it shows, changes and refuses, against fake coordinators over gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import GroupSubscribedToTopicError
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.messages.groups.listing import GroupMember, GroupType
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from tests.support.command_line import penstock
from tests.support.fake_broker import FakeCluster

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ANNA = GroupMember(
    "m-anna",
    client_id="anna",
    client_host="/10.0.0.1",
    member_epoch=4,
    subscribed_topic_names=("orders",),
    assignment=(TopicIdPartitions("id", (0,), "orders"),),
    target_assignment=(TopicIdPartitions("id", (0,), "orders"),),
    silent_ms=1_500,
)


@pytest.fixture(scope="module")
def running() -> Iterator[FakeCluster]:
    with FakeCluster(2) as cluster:
        cluster.create_topic("orders", 2)
        for partition in (0, 1):
            for at in range(10):
                cluster.append("orders", partition, build_batch([b"x"], timestamps_ms=100 * at))
        yield cluster


@pytest.fixture
def cluster(running: FakeCluster) -> FakeCluster:
    groups = running.groups
    groups.groups.clear()
    groups.offsets.clear()
    groups.asked.clear()
    groups.make("shop", 1, ANNA, group_type=GroupType.CONSUMER, protocol_name="uniform", group_epoch=4)
    groups.commit("shop", ORDERS_0, 4)
    groups.make("idle", 2)
    groups.commit("idle", ORDERS_0, 4)
    groups.commit("idle", ORDERS_1, 10)
    return running


def run(cluster: FakeCluster, *arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, output and errors."""
    done = penstock("groups", *arguments, stdin=stdin, bootstrap=cluster.bootstrap)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def loaded(cluster: FakeCluster, *arguments: object) -> Any:
    code, out, _ = run(cluster, *arguments, "--json")
    return code, json.loads(out)


def test_groups_of_all_coordinators_are_listed(cluster: FakeCluster) -> None:
    assert run(cluster, "list") == (
        0,
        "group\tstate\ttype\tprotocol_type\tcoordinator\n"
        "idle\tEmpty\tclassic\tconsumer\t2\n"
        "shop\tStable\tconsumer\tconsumer\t1\n",
        "",
    )
    code, found = loaded(cluster, "list", "--state", "stable", "--type", "consumer")
    assert code == 0 and [(g["group_id"], g["coordinator_id"]) for g in found] == [("shop", 1)]
    code, _, err = run(cluster, "list", "--state", "gone")
    assert code == 2 and "--state: 'gone' is none of PreparingRebalance" in err


def test_a_group_is_described_with_its_lag_and_its_members(cluster: FakeCluster) -> None:
    code, out, _ = run(cluster, "describe", "shop")
    assert code == 0
    assert out == (
        "group: shop\nstate: Stable\ntype: consumer\nassignor: uniform\nepoch: 4\ncoordinator: 1\nmembers: 1\n"
        "topic\tpartition\tcommitted\tlog_end\tlag\tmember_id\tclient_id\thost\n"
        "orders\t0\t4\t10\t6\tm-anna\tanna\t/10.0.0.1\n"
    )
    code, out, _ = run(cluster, "describe", "shop", "--members")
    assert out.splitlines()[-1] == "m-anna\t-\tanna\t/10.0.0.1\t4\tconsumer\t1.5\torders-0"
    code, found = loaded(cluster, "describe", "--all")
    assert [group["group_id"] for group in found] == ["idle", "shop"]
    assert found[0]["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "committed": 10,
        "leader_epoch": 3,
        "metadata": "",
        "commit_timestamp_ms": 1_000,
        "log_end": 10,
        "lag": 0,
        "member_id": None,
        "error": None,
    }
    assert found[1]["members"][0]["assignment"] == [{"topic": "orders", "partition": 0}]


def test_a_group_that_does_not_exist_is_an_error_and_holds_up_no_other(cluster: FakeCluster) -> None:
    code, out, err = run(cluster, "describe", "none")
    assert (code, out) == (1, "") and err == "penstock: GROUP_ID_NOT_FOUND: there is no group none\n"
    code, out, err = run(cluster, "describe", "none", "idle")
    assert code == 1 and "orders\t0\t4\t10\t6\t-\t-\t-" in out and err == "none: there is no group none\n"
    cluster.groups.commit("idle", TopicPartition("gone", 0), 1)
    code, out, err = run(cluster, "describe", "idle")
    assert code == 0 and "gone\t0\t1\t-\t-\t-\t-\t-" in out and err == "idle: gone-0: gone-0 does not exist\n"
    assert run(cluster, "describe")[2] == "penstock: give either groups or --all\n"


RESETS: dict[str, tuple[tuple[str, ...], tuple[int, int]]] = {
    "earliest": (("--topic", "orders", "--to-earliest"), (0, 0)),
    "latest of one": (("--topic", "orders:0", "--to-latest"), (10, 10)),
    "offset of all": (("--all-topics", "--to-offset", "7"), (7, 7)),
    "shift": (("--topic", "orders:0,1", "--shift-by", "-2"), (2, 8)),
    "time": (("--all-topics", "--to-datetime", "1970-01-01T00:00:00.450Z"), (5, 5)),
    "time before now": (("--all-topics", "--to-datetime", "-1s"), (10, 10)),
    "duration": (("--all-topics", "--by-duration", "P1DT2H3M4.5S"), (10, 10)),
    "where it is": (("--all-topics", "--to-current", "--execute"), (4, 10)),
}


@pytest.mark.parametrize("row", RESETS)
def test_offsets_are_reset(cluster: FakeCluster, row: str) -> None:
    arguments, after = RESETS[row]
    before, dry = dict(cluster.groups.offsets["idle"]), [one for one in arguments if one != "--execute"]
    code, out, err = run(cluster, "reset-offsets", "idle", *dry, "--dry-run")
    assert code == 0 and err == "nothing was changed (--dry-run)\n" and cluster.groups.offsets["idle"] == before
    code, shown, err = run(cluster, "reset-offsets", "idle", *arguments)
    assert (code, shown, err) == (0, out, "")
    assert tuple(one.offset for _, one in sorted(cluster.groups.offsets["idle"].items())) == after


def test_a_reset_shows_what_was_and_what_is_and_exports_what_it_can_read(cluster: FakeCluster, tmp_path: Path) -> None:
    code, out, err = run(cluster, "reset-offsets", "idle", "--all-topics", "--to-offset", "99")
    assert out == "topic\tpartition\tbefore\tafter\tmoved\norders\t0\t4\t10\t6\norders\t1\t10\t10\t0\n"
    assert err == "".join(f"orders-{n}: there is no offset 99; 10 is the nearest\n" for n in (0, 1))
    _, exported, _ = run(cluster, "reset-offsets", "idle", "--all-topics", "--shift-by", "-3", "--dry-run", "--export")
    assert exported == "orders,0,7\norders,1,7\n"
    path = tmp_path / "offsets.csv"
    path.write_text(exported)
    code, found = loaded(cluster, "reset-offsets", "idle", "--from-file", path)
    assert code == 0 and [(one["before"], one["after"], one["error"]) for one in found] == [(10, 7, None)] * 2
    code, out, _ = run(cluster, "reset-offsets", "new", "--from-file", "-", stdin=b"orders,1,5\n\n")
    assert code == 0 and out.splitlines()[1] == "orders\t1\t-\t5\t-"


BAD_RESETS: dict[str, tuple[tuple[str, ...], str]] = {
    "nowhere": (("--topic", "orders"), "give one of --to-earliest, --to-latest, --to-current, "),
    "two places": (("--topic", "orders", "--to-latest", "--shift-by", "1"), "--to-latest and --shift-by: keep one"),
    "of nothing": (("--to-latest",), "give one of --topic TOPIC[:P,…], --all-topics and --from-file FILE"),
    "of two": (("--topic", "orders", "--all-topics", "--to-latest"), "give one of --topic TOPIC[:P,…], --all-topics"),
    "no partition": (("--topic", "orders:", "--to-latest"), "--topic orders:: must be a topic, or a topic and part"),
    "no number": (("--topic", "orders:1,x", "--to-latest"), "--topic orders:1,x: must be a topic, or"),
    "a huge number": (("--topic", "orders:99999999999", "--to-latest"), "must be a topic, or a topic and partitions"),
    "no topic": (("--topic", ":1", "--to-latest"), "--topic :1: must be a topic, or a topic and partitions of it"),
    "twice": (("--topic", "orders:0", "--topic", "orders:1", "--to-latest"), "orders is given twice; name its part"),
    "no time": (("--topic", "orders", "--to-datetime", "soon"), "--to-datetime soon: must be ms since 1970, a time"),
    "no duration": (("--topic", "orders", "--by-duration", "1h"), "--by-duration 1h: must be a duration of ISO 8601"),
    "empty duration": (("--topic", "orders", "--by-duration", "PT"), "--by-duration PT: must be a duration of ISO"),
    "months": (("--topic", "orders", "--by-duration", "P1M"), "--by-duration P1M: must be a duration of ISO 8601"),
    "no file": (("--from-file", "/nonexistent/offsets"), "/nonexistent/offsets: No such file or directory"),
    "two forms": (("--all-topics", "--to-latest", "--export", "--json"), "--export and --json: each says how to print"),
    "a negative": (("--topic", "orders", "--to-offset", "-1"), "'--to-offset': must be 0 or more (given: '-1')"),
    "a word": (("--topic", "orders", "--to-offset", "x"), "'--to-offset': must be a whole number (given: 'x')"),
    "a digit too many": (("--topic", "orders", "--to-offset", "9" * 20), "must be 9223372036854775807 or less (given"),
    "yes and no": (("--topic", "orders", "--to-latest", "--execute", "--dry-run"), "--execute and --dry-run: keep"),
    "now and then": (("--topic", "orders", "--to-latest", "--to-current"), "--to-latest and --to-current: keep one"),
}


@pytest.mark.parametrize("row", BAD_RESETS)
def test_a_reset_that_means_nothing_is_refused_before_anybody_is_asked(cluster: FakeCluster, row: str) -> None:
    arguments, says = BAD_RESETS[row]
    code, out, err = run(cluster, "reset-offsets", "idle", *arguments)
    assert code in (1, 2) and out == "" and says in err and not cluster.groups.asked


BAD_FILES = {
    "nothing": (b"\n", "standard input: has no line; write topic,partition,offset, like orders,0,4711"),
    "two cells": (b"orders,0\n", "line 1 must be topic,partition,offset, like orders,0,4711; it is 'orders,0'"),
    "four cells": (b"idle,orders,0,1\n", "line 1 must be topic,partition,offset"),
    "a word": (b"orders,0,1\norders,0,end\n", "line 2 must be topic,partition,offset"),
    "negative": (b"orders,0,-1\n", "line 1 must be topic,partition,offset"),
    "too large": (b"orders,0,9223372036854775808\n", "line 1 must be topic,partition,offset"),
    "quotes": (b'"orders,0,1\n', "line 1 must be topic,partition,offset"),
    "twice": (b"orders,0,1\norders,0,2\n", "line 2: orders-0 is given twice"),
    "a long line": (b"o" * 100_000, "line 1 must be topic,partition,offset"),
}


@pytest.mark.parametrize("row", BAD_FILES)
def test_a_line_that_is_no_offset_is_named(cluster: FakeCluster, row: str) -> None:
    data, says = BAD_FILES[row]
    code, _, err = run(cluster, "reset-offsets", "idle", "--from-file", "-", stdin=data)
    assert code == 2 and says in err and not cluster.groups.asked


def test_a_group_in_which_somebody_reads_is_not_changed_and_the_error_says_who(cluster: FakeCluster) -> None:
    who = "group 'shop' is not empty: it has 1 member: m-anna (client 'anna' at /10.0.0.1); stop its consumers first"
    code, _, err = run(cluster, "reset-offsets", "shop", "--topic", "orders", "--to-earliest")
    assert (code, err) == (1, f"penstock: NON_EMPTY_GROUP: {who}\n")
    assert run(cluster, "delete", "shop")[2] == f"penstock: NON_EMPTY_GROUP: {who}\n"
    code, out, err = run(cluster, "delete", "shop", "idle", "none")
    assert (code, out) == (1, "deleted idle\n") and err == f"shop: {who}\nnone: there is no group none\n"
    assert cluster.groups.offsets["shop"][ORDERS_0].offset == 4


def test_a_reset_of_all_topics_of_a_group_without_offsets_says_so(cluster: FakeCluster) -> None:
    code, _, err = run(cluster, "reset-offsets", "new", "--all-topics", "--to-latest")
    assert code == 2 and err == "penstock: group 'new' has committed nothing; name the topics with --topic\n"
    code, _, err = run(cluster, "reset-offsets", "idle", "--topic", "gone", "--to-latest")
    assert code == 1 and "topic 'gone' does not exist" in err


def test_a_reset_of_a_group_that_does_not_exist_says_so_and_makes_it(cluster: FakeCluster) -> None:
    where = ("reset-offsets", "typo", "--topic", "orders:0", "--to-earliest")
    code, _, err = run(cluster, *where, "--dry-run")
    assert code == 0 and "group 'typo' has committed none of these offsets before: it does not exist, or" in err
    assert "They would be its first" in err and not cluster.groups.offsets.get("typo")
    code, _, err = run(cluster, *where)
    assert code == 0 and "They are its first" in err and cluster.groups.offsets["typo"][ORDERS_0].offset == 0
    assert run(cluster, *where)[2] == ""


def test_committed_offsets_are_deleted(cluster: FakeCluster) -> None:
    cluster.groups.commit("idle", TopicPartition("gone", 3), 8)
    code, out, err = run(cluster, "delete-offsets", "idle", "--topic", "gone", "--topic", "orders:1")
    assert (code, out, err) == (0, "topic\tpartition\tdeleted\ngone\t3\t8\norders\t1\t10\n", "")
    code, found = loaded(cluster, "delete-offsets", "idle", "--topic", "orders")
    assert code == 0 and found == [{"topic": "orders", "partition": 0, "deleted": True, "error": None}]
    code, _, err = run(cluster, "delete-offsets", "idle", "--topic", "orders")
    assert code == 2 and "group 'idle' has committed nothing of orders" in err
    assert "give the topics, like --topic orders" in run(cluster, "delete-offsets", "idle")[2]
    cluster.groups.refusals["OffsetDelete"].append(GroupSubscribedToTopicError("anna reads it"))
    code, _, err = run(cluster, "delete-offsets", "shop", "--topic", "orders")
    assert (code, err) == (1, "penstock: GROUP_SUBSCRIBED_TO_TOPIC: anna reads it\n")


def test_a_dry_run_of_a_deletion_shows_what_would_go_and_deletes_nothing(cluster: FakeCluster) -> None:
    assert loaded(cluster, "delete", "idle", "--dry-run") == (
        0,
        [{"group_id": "idle", "state": "Empty", "members": 0, "offsets": 2}],
    )
    assert loaded(cluster, "delete-offsets", "idle", "--topic", "orders:1", "--dry-run") == (
        0,
        [{"topic": "orders", "partition": 1, "offset": 10}],
    )
    assert len(cluster.groups.offsets["idle"]) == 2


def test_groups_are_listed_by_a_pattern(cluster: FakeCluster) -> None:
    assert [one["group_id"] for one in loaded(cluster, "list", "--pattern", "i.*")[1]] == ["idle"]
