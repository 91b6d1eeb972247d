"""`penstock log-dirs`: what its arguments may be, what it shows, and how it waits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import pytest
import typer

from penstock import TopicPartition
from penstock.cli import log_dirs
from penstock.cli.log_dirs import NotMovedError, parse_log_dir_moves
from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo, ReplicaLogInfo
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.errors import ApiError, ConfigError, LogDirNotFoundError

TP = TopicPartition("orders", 0)
HERE, COPY = ReplicaLogInfo("id", 10, 0, 4), FutureReplicaInfo("id", 6, 4, 2, "the disk is full")


def seen(at: str, to: str | None = None) -> BrokerLogDirs:
    """A broker whose replica is in one of two log dirs, and comes to another."""
    return BrokerLogDirs(
        1,
        tuple(
            LogDirInfo(path, path, None, 100, 50, {TP: HERE} if path == at else {}, {TP: COPY} if path == to else {})
            for path in ("/a", "/b")
        ),
    )


class FakeAdmin:
    """Shows one look after the other; the last one again and again."""

    def __init__(self, *looks: BrokerLogDirs, error: ApiError | None = None) -> None:
        self.looks, self.error = list(looks), error
        self.wanted: dict[TopicPartition, str] = {}

    def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, topics: Iterable[str] = ()
    ) -> dict[int, BrokerLogDirs]:
        return {1: self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]}

    def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        self.wanted = dict(wanted)
        return dict.fromkeys(wanted, self.error)

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeAdmin]]:
    """The admin that the command gets."""
    admins: list[FakeAdmin] = []
    monkeypatch.setattr(log_dirs, "patient_admin", lambda bootstrap: admins[0])
    monkeypatch.setattr(log_dirs, "POLL_SECONDS", 0)
    monkeypatch.setattr(log_dirs, "SAY_SECONDS", 0)
    yield admins


def test_a_move_names_a_partition_and_a_log_dir() -> None:
    found = parse_log_dir_moves(["orders:0=/data/b", "a-b-12=/data/c=d"])
    assert found == {TP: "/data/b", TopicPartition("a-b", 12): "/data/c=d"}


@pytest.mark.parametrize("move", ["orders", "orders-0", "orders=/b", "-0=/b", "orders-x=/b", "orders-0=", "-=/b", ""])
def test_what_is_no_move_is_refused_with_an_example(move: str) -> None:
    with pytest.raises(ConfigError, match="like orders:0=/data/b"):
        parse_log_dir_moves([move])
    with pytest.raises(ConfigError, match="orders-0 is given twice"):
        parse_log_dir_moves(["orders-0=/a", "orders-0=/b"])


def test_waiting_says_how_far_it_is_and_ends_when_the_replica_is_there(
    given: list[FakeAdmin], capsys: pytest.CaptureFixture[str]
) -> None:
    given.append(FakeAdmin(seen("/a", "/b"), seen("/a", "/b"), seen("/b")))
    log_dirs.move(["orders-0=/b/"], 1, wait=True, as_json=True)
    printed = capsys.readouterr()
    row = {"topic": "orders", "partition": 0, "log_dir": "/b/", "moved": True, "error": None}
    assert json.loads(printed.out) == [row]
    assert "1 replicas still move" in printed.err and "one waits: the disk is full" in printed.err


def test_a_move_that_ends_elsewhere_and_one_that_is_refused_are_failures(
    given: list[FakeAdmin], capsys: pytest.CaptureFixture[str]
) -> None:
    given.append(FakeAdmin(seen("/a", "/b"), seen("/a")))
    with pytest.raises(NotMovedError, match="orders-0 is in /a and not in /b"):
        log_dirs.move(["orders-0=/b"], 1, wait=True)
    given[0] = FakeAdmin(seen("/a"), error=LogDirNotFoundError("no such log dir"))
    with pytest.raises(typer.Exit):
        log_dirs.move(["orders-0=/c"], 1, wait=True)
    assert "no such log dir" in capsys.readouterr().err


def test_a_replica_that_comes_has_a_row_of_its_own(given: list[FakeAdmin], capsys: pytest.CaptureFixture[str]) -> None:
    given.append(FakeAdmin(seen("/a", "/b")))
    log_dirs.describe(replicas=True)
    _, here, copy = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert here == ["1", "/a", "orders", "0", "10", "0", "4", "", ""]
    assert copy == ["1", "/b", "orders", "0", "6", "", "", "4", "the disk is full"]
    log_dirs.describe(as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)
    assert [len(one["coming"]) for one in shown["log_dirs"]] == [0, 1]
    assert shown["log_dirs"][1]["coming"][0]["left_bytes"] == 4
    log_dirs.describe()
    assert [line.split("\t")[2:5] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["1", "0", "10"],
        ["0", "1", "0"],
    ]
