"""`penstock cluster balance --by dirs`: a plan is performed to its end, and what goes wrong holds up nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from penstock import TopicPartition
from penstock.balance.dirs.dir_planner import make_dir_plan
from penstock.cli.moves import balance
from penstock.cli.moves.balance import MovesAtATime
from penstock.cli.moves.cluster_reading import read_cluster
from penstock.cli.moves.dirs import dir_performing
from penstock.cli.moves.dirs.dir_reading import read_dirs
from penstock.cli.moves.throttling import LOG_DIR_KEYS
from penstock.errors import KafkaStorageError, NetworkError, ReplicaNotAvailableError
from tests.unit.cli.moves.dirs.fake_log_dirs import MIB, FakeLogDirs, asked_for_dirs

(RATE,) = LOG_DIR_KEYS


@pytest.fixture
def log_dirs(monkeypatch: pytest.MonkeyPatch) -> FakeLogDirs:
    """Broker 1 has a new disk, broker 2 is even."""
    placed = {1: {"/a": [10 * MIB] * 6, "/b": [10 * MIB] * 6, "/c": []}, 2: {"/a": [10 * MIB], "/b": [10 * MIB]}}
    return asked_for_dirs(monkeypatch, FakeLogDirs(placed))


def at_a_time(replicas: int) -> MovesAtATime:
    return MovesAtATime(replicas_of_broker=replicas)


def failed_balance(capsys: pytest.CaptureFixture[str], **options: Any) -> list[dict[str, Any]]:
    """The replicas that it says are not where they should be; it exits with 1."""
    with pytest.raises(typer.Exit) as exit_:
        balance.balance_cluster("dirs", as_json=True, **options)
    assert exit_.value.exit_code == 1
    printed = json.loads(capsys.readouterr().out)
    failed: list[dict[str, Any]] = printed["log_dirs"]["failed"]
    return failed


def test_log_dirs_are_evened_and_a_second_run_does_nothing(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    balance.balance(by="dirs", as_json=True)
    assert log_dirs.sizes(1) == [40, 40, 40] and log_dirs.sizes(2) == [10, 10]
    printed = json.loads(capsys.readouterr().out)
    assert (
        printed["performed"] and printed["replicas_moved"] == 0 and printed["reassignments"] == printed["failed"] == []
    )
    found = printed["log_dirs"]
    assert (found["replicas_moved"], found["bytes_to_copy"]) == (4, 40 * MIB)
    assert found["failed"] == found["silent"] == []
    assert [row["size_bytes"] // MIB for row in found["before"]] == [60, 60, 0, 10, 10]
    assert [row["size_bytes"] // MIB for row in found["after"]] == [40, 40, 40, 10, 10]
    move = {"broker_id": 1, "topic": "t", "log_dir_after": "/c", "size_bytes": 10 * MIB}
    assert all(row.items() >= move.items() and row["log_dir"] in "/a /b" for row in found["moves"])
    asked = len(log_dirs.asked)
    balance.balance(by="dirs")
    assert len(log_dirs.asked) == asked and "nothing to do between log dirs" in capsys.readouterr().err


def test_a_dry_run_shows_each_log_dir_and_changes_nothing(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dirs.offline.add((2, "/b"))
    balance.balance(by="dirs", dry_run=True)
    printed = capsys.readouterr()
    assert not log_dirs.asked and log_dirs.sizes(1) == [60, 60, 0]
    assert f"1\t/c\t0\t0\t4\t{40 * MIB}" in printed.out and "2\t/b\toffline\t?\toffline\t?" in printed.out
    assert "4 replicas move to another log dir of their broker, 40.0 MiB to copy" in printed.err
    assert "nothing goes to /b of broker 2, which is offline: the disk is dead" in printed.err


def test_log_dirs_are_planned_from_what_is_there_once_replicas_have_moved_between_brokers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything that comes to broker 2 comes to its first log dir."""
    made = asked_for_dirs(monkeypatch, FakeLogDirs({1: {"/a": [MIB] * 8}, 2: {"/a": [], "/b": []}}))
    balance.balance(by="replicas,dirs", dry_run=True)
    assert "the log dirs are planned from what is there now" in capsys.readouterr().err
    balance.balance(by="replicas,dirs", as_json=True)
    assert made.sizes(1) == [4] and made.sizes(2) == [2, 2]
    printed = json.loads(capsys.readouterr().out)
    assert (printed["replicas_moved"], printed["log_dirs"]["replicas_moved"]) == (4, 2)


def test_the_goals_without_dirs_ask_nothing_of_log_dirs(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    balance.balance(by="leaders", as_json=True)
    assert not log_dirs.asked and "log_dirs" not in json.loads(capsys.readouterr().out)


def test_only_some_replicas_move_at_a_time(log_dirs: FakeLogDirs) -> None:
    balance.balance_cluster(by="dirs", limits=at_a_time(2))
    assert log_dirs.most_coming == 2 and log_dirs.sizes(1) == [40, 40, 40]


def test_ctrl_c_stops_the_command_and_not_the_moves_and_the_next_run_does_the_rest(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        if len(log_dirs.asked) == 2:
            raise KeyboardInterrupt

    log_dirs.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        balance.balance_cluster(by="dirs", throttle=7, limits=at_a_time(1))
    assert "What was begun goes on: `penstock log-dirs describe" in capsys.readouterr().err
    assert len(log_dirs.coming) == 1 and log_dirs.configs == {RATE: "7"}
    log_dirs.on_look = lambda: None
    balance.balance_cluster(by="dirs", limits=at_a_time(1))
    assert log_dirs.sizes(1) == [40, 40, 40] and len(set(log_dirs.asked)) == len(log_dirs.asked) == 4


def test_a_second_command_says_that_replicas_move_already_and_ends(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dirs.looks, log_dirs.after_alter = 9, _interrupt
    with pytest.raises(KeyboardInterrupt):
        balance.balance(by="dirs")
    asked, _ = list(log_dirs.asked), capsys.readouterr()
    balance.balance(by="dirs", dry_run=True)
    printed = capsys.readouterr()
    assert "4 replicas move between log dirs already, and are counted where they go: `penstock log-dirs" in printed.err
    assert "nothing to do between log dirs" in printed.err and f"1\t/c\t4\t{40 * MIB}\t4\t{40 * MIB}" in printed.out
    balance.balance(by="dirs", as_json=True)
    assert json.loads(capsys.readouterr().out)["log_dirs"]["under_way_before"] == 4
    assert log_dirs.asked == asked


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_brokers_with_one_log_dir_have_nothing_to_even_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = asked_for_dirs(monkeypatch, FakeLogDirs({1: {"/a": [MIB] * 4}, 2: {"/a": [9 * MIB], "/b": []}}))
    made.offline.add((2, "/b"))
    balance.balance(by="dirs")
    printed = capsys.readouterr().err.splitlines()
    assert printed[-1] == "nothing to do between log dirs: no broker in service has more than one that is online"


def test_the_throttle_holds_while_replicas_move_and_then_what_was_before(log_dirs: FakeLogDirs) -> None:
    log_dirs.configs = {RATE: "5"}
    seen: list[str] = []
    log_dirs.on_alter = lambda: seen.append(log_dirs.configs[RATE])
    balance.balance(by="dirs", throttle=7)
    assert seen == ["7"] and log_dirs.configs == {RATE: "5"}


def test_a_rate_that_somebody_else_sets_meanwhile_stays(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dirs.after_alter = lambda: log_dirs.configs.update({RATE: "9"})
    balance.balance(by="dirs", throttle=7)
    assert log_dirs.configs == {RATE: "9"} and "somebody else has changed the throttle" in capsys.readouterr().err


def two_skewed(monkeypatch: pytest.MonkeyPatch) -> FakeLogDirs:
    dirs = {"/a": [10 * MIB] * 4, "/b": []}
    return asked_for_dirs(monkeypatch, FakeLogDirs({1: dirs, 2: dirs}))


def test_a_broker_that_dies_in_the_middle_holds_up_no_other_and_what_is_left_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = two_skewed(monkeypatch)
    made.after_alter = lambda: made.silent.add(1)
    failed = failed_balance(capsys, throttle=7, limits=at_a_time(1))
    assert made.sizes(2) == [20, 20] and made.sizes(1) == [40, 0]
    assert [(row["broker_id"], row["topic"]) for row in failed] == [(1, "t")] * 2
    assert "its move goes on by itself: broker 1 does not answer: it is silent, for 60 s" in failed[0]["error"]
    assert "stays in /a: broker 1 does not answer" in failed[1]["error"]
    assert made.configs == {RATE: "7"}, "what goes on must not go on without a throttle"


def test_a_broker_that_is_unregistered_in_the_middle_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = two_skewed(monkeypatch)
    made.after_alter = lambda: made.brokers.pop(1, None) and None
    failed = failed_balance(capsys)
    assert made.sizes(2) == [20, 20] and [row["broker_id"] for row in failed] == [1, 1]
    assert "broker 1 is not registered" in failed[0]["error"]


def test_a_broker_that_restarts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = two_skewed(monkeypatch)

    def look() -> None:
        made.silent = {1} if made.asked and dir_performing.time.monotonic() < 50 else set()

    made.on_look = look
    balance.balance(by="dirs", throttle=7)
    assert made.sizes(1) == made.sizes(2) == [20, 20] and made.configs == {}


def test_a_broker_that_does_not_say_at_first_is_named_and_the_others_are_evened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = two_skewed(monkeypatch)
    made.silent = {1}
    with pytest.raises(typer.Exit):
        balance.balance(by="dirs")
    assert made.sizes(2) == [20, 20]
    assert "broker 1 does not say what is in its log dirs; they are left alone" in capsys.readouterr().err
    made.fence(1)
    balance.balance(by="dirs")
    assert "broker 1, which is out of service, are left alone" in capsys.readouterr().err


def test_a_disk_that_fails_in_the_middle_ends_the_moves_to_it_and_no_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = asked_for_dirs(monkeypatch, FakeLogDirs({1: {"/a": [10 * MIB] * 9, "/b": [], "/c": []}}))
    made.after_alter = lambda: made.offline.add((1, "/b"))
    failed = failed_balance(capsys, limits=at_a_time(4))
    assert made.sizes(1) == [60, 0, 30] and len(failed) == 3
    assert all("/b is offline: the disk is dead" in row["error"] for row in failed)
    assert any("is in /a and not in /b" in row["error"] for row in failed)
    assert any("does not move from /a to /b" in row["error"] for row in failed), "its turn came after that"


def test_a_replica_whose_own_disk_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = two_skewed(monkeypatch)

    def fail() -> None:
        made.offline.add((1, "/a"))
        made.coming = {key: move for key, move in made.coming.items() if key[0] != 1}

    made.after_alter = fail
    failed = failed_balance(capsys)
    assert [row["broker_id"] for row in failed] == [1, 1] and made.sizes(2) == [20, 20]
    assert all("is in no log dir that works and not in /b: /a is offline" in row["error"] for row in failed)


def test_moves_that_wait_for_room_are_left_after_a_minute_and_go_on_by_themselves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = two_skewed(monkeypatch)

    def fill_up() -> None:
        for (broker_id, _), move in made.coming.items():
            move.waits_for = "the disk is full" if broker_id == 1 else ""

    made.after_alter = fill_up
    failed = failed_balance(capsys)
    assert made.sizes(2) == [20, 20] and [row["broker_id"] for row in failed] == [1, 1]
    assert "goes on by itself: its broker waits: the disk is full" in failed[0]["error"]
    assert dir_performing.time.monotonic() >= 60


def test_a_move_that_becomes_smaller_is_waited_for_however_slow_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = two_skewed(monkeypatch)
    made.looks = 1_000
    balance.balance(by="dirs")
    assert made.sizes(1) == [20, 20] and dir_performing.time.monotonic() > 400


def test_a_replica_that_is_refused_is_named_and_one_that_is_gone_is_not(
    log_dirs: FakeLogDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_dir_plan(read_dirs(log_dirs, read_cluster(log_dirs)).brokers)  # type: ignore[arg-type]
    refused, gone = (TopicPartition(move.topic, move.index) for move in plan.moves[:2])
    log_dirs.not_movable = {refused: KafkaStorageError("it is offline"), gone: ReplicaNotAvailableError("gone")}
    (row,) = failed_balance(capsys)
    assert row["partition"] == refused.partition and "it is offline" in row["error"]
    assert sum(log_dirs.sizes(1)) == 120 and log_dirs.sizes(1)[2] == 20


def test_a_move_whose_request_was_not_answered_is_waited_for(log_dirs: FakeLogDirs) -> None:
    lost: list[int] = []

    def lose() -> None:
        if not lost:
            lost.append(1)
            raise NetworkError("the connection was lost")

    log_dirs.after_alter = lose
    balance.balance(by="dirs")
    assert log_dirs.sizes(1) == [40, 40, 40] and len(log_dirs.asked) == 4


def test_a_broker_that_answers_no_request_to_move_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = two_skewed(monkeypatch)

    def refuse() -> None:
        raise NetworkError("no request comes through")

    made.on_alter = refuse
    failed = failed_balance(capsys)
    assert len(failed) == 4 and all("no request comes through, for 60 s" in row["error"] for row in failed)
