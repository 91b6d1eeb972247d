"""Admin and `penstock quorum` describe the quorum, add and remove voters, make it dynamic, and forget a controller."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import typer

from penstock import Admin
from penstock.cli import quorum
from penstock.cli.edge.voters import parse_voter
from penstock.errors import (
    ApiError,
    ConfigError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    InvalidRequestError,
    PolicyViolationError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.types import Endpoint, ListenerEndpoint
from tests.support.fake_broker import FakeCluster
from tests.support.voters import disk_of

NEW = f"4@host-4:9193:{disk_of(4)}"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as found:
        yield found


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as found:
        yield found


def test_the_quorum_is_described_with_disks_and_addresses(admin: Admin) -> None:
    found = admin.describe_quorum()
    assert found.is_dynamic
    (voter,) = found.voters
    assert (voter.directory_id, voter.endpoints) == (
        disk_of(1),
        (ListenerEndpoint("CONTROLLER", Endpoint("host-1", 9193)),),
    )


def test_a_voter_is_added_and_removed(cluster: FakeCluster, admin: Admin) -> None:
    admin.add_voter(4, disk_of(4), "host-4:9193")
    assert cluster.voters[4] == (disk_of(4), "host-4:9193")
    with pytest.raises(DuplicateVoterError):
        admin.add_voter(4, disk_of(4), "host-4:9193")
    with pytest.raises(VoterNotFoundError):
        admin.remove_voter(4, disk_of(4, number=9))
    admin.remove_voter(4, disk_of(4))
    assert 4 not in cluster.voters


def test_a_controller_that_is_gone_is_forgotten(cluster: FakeCluster, admin: Admin) -> None:
    with pytest.raises(PolicyViolationError):
        admin.unregister_controller(1)
    admin.unregister_controller(9)
    assert not admin.describe_quorum().observers
    with pytest.raises(ControllerIdNotRegisteredError):
        admin.unregister_controller(9)
    for wrong in (-1, 1 << 31, "9", True):
        with pytest.raises((TypeError, ValueError)):
            admin.unregister_controller(wrong)  # type: ignore[arg-type]


def test_a_static_quorum_is_made_dynamic(cluster: FakeCluster, admin: Admin) -> None:
    cluster.has_dynamic_quorum = False
    with pytest.raises(UnsupportedVersionError):
        admin.add_voter(4, disk_of(4), "host-4:9193")
    admin.make_quorum_dynamic()
    assert admin.describe_quorum().is_dynamic
    with pytest.raises(InvalidRequestError):
        admin.make_quorum_dynamic()


def test_a_change_whose_answer_was_lost_is_a_success_of_its_repetition(cluster: FakeCluster, admin: Admin) -> None:
    cluster.loses_next_voter_change = True
    admin.add_voter(4, disk_of(4), "host-4:9193")
    cluster.loses_next_voter_change = True
    admin.remove_voter(4, disk_of(4))
    cluster.loses_next_voter_change = True
    admin.unregister_controller(9)
    cluster.has_dynamic_quorum, cluster.loses_next_voter_change = False, True
    admin.make_quorum_dynamic()
    assert not cluster.loses_next_voter_change and 4 not in cluster.voters


def test_a_repetition_that_finds_another_disk_is_an_error(cluster: FakeCluster, admin: Admin) -> None:
    cluster.voters[4] = disk_of(4, number=9), "host-4:9193"
    cluster.loses_next_voter_change = True
    with pytest.raises(DuplicateVoterError):
        admin.add_voter(4, disk_of(4), "host-4:9193")


@pytest.mark.parametrize("wrong", [(-1, "D", "h:1"), (2**31, "D", "h:1"), ("4", "D", "h:1"), (4, "", "h:1"),
                                   (4, None, "h:1"), (4, "D", "h"), (4, "D", "h:0"), (4, "D", "h:65536"),
                                   (4, "D", ":1"), (4, "D", "a b:1"), (4, "D", 9193)])  # fmt: skip
def test_arguments_that_make_no_sense_are_refused_at_once(admin: Admin, wrong: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError, ConfigError)):
        admin.add_voter(*wrong)  # type: ignore[arg-type]


# -- the command line --------------------------------------------------------------------------------------------------


def test_a_voter_has_one_form_and_describe_shows_it() -> None:
    for text in (NEW, f"4@[::1]:9193:{disk_of(4)}", f"4:{disk_of(4)}"):
        assert str(parse_voter(text, needs_address=False)) == text
    assert parse_voter(NEW, needs_address=True).address == "host-4:9193"


@pytest.mark.parametrize(
    "text",
    ["", "4", "4@h", "4@h:1", "-1@h:1:D", "x@h:1:D", "4@:D", "4@h:D", "@h:1:D", "4@h:1:", f"{2**31}@h:1:D", "4:D"],
)
def test_what_is_no_voter_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match="write ID@HOST:PORT:DIRECTORY_ID"):
        parse_voter(text, needs_address=True)


def test_describe_shows_each_replica_and_how_far_it_is(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.voters[3] = disk_of(3), "host-3:9193"
    quorum.describe(cluster.bootstrap)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("voters: dynamic")
    assert [line.split("\t") for line in lines[5:]] == [
        ["1", "voter", "7", "0", "0", "1", f"1@host-1:9193:{disk_of(1)}"],
        ["3", "voter", "5", "2", "0", "3", f"3@host-3:9193:{disk_of(3)}"],
        ["9", "observer", "-1", "-", "-1", "-", "-"],
    ]
    quorum.describe(cluster.bootstrap, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["is_dynamic"] and [one["lag"] for one in document["voters"]] == [0, 2]
    assert document["voters"][0]["endpoints"] == [{"name": "CONTROLLER", "host": "host-1", "port": 9193}]
    assert document["observers"][0]["directory_id"] == ""


def test_the_commands_change_the_voters(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.has_dynamic_quorum = False
    quorum.make_dynamic(bootstrap=cluster.bootstrap)
    quorum.add_voter(NEW, bootstrap=cluster.bootstrap)
    assert cluster.voters[4] == (disk_of(4), "host-4:9193")
    quorum.remove_voter(NEW, bootstrap=cluster.bootstrap, dry_run=True)
    assert 4 in cluster.voters
    quorum.remove_voter(NEW, bootstrap=cluster.bootstrap)
    assert 4 not in cluster.voters
    assert capsys.readouterr().out.splitlines() == [
        "the quorum is dynamic",
        f"voter {NEW} added",
        f"voter {NEW} would be removed",
        f"voter {NEW} removed",
    ]


def test_a_command_forgets_a_controller(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    quorum.unregister(9, bootstrap=cluster.bootstrap, dry_run=True)
    assert cluster.observers_away == {9}
    quorum.unregister(9, bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out.splitlines() == ["controller 9 would be forgotten", "controller 9 forgotten"]
    for node_id, words in ((1, "is a voter"), (9, "knows no controller 9")):
        with pytest.raises(ApiError, match=words):
            quorum.unregister(node_id, bootstrap=cluster.bootstrap, dry_run=True, as_json=True)


def test_a_dry_run_shows_what_is_there_and_changes_nothing(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.has_dynamic_quorum = False
    quorum.make_dynamic(bootstrap=cluster.bootstrap, dry_run=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["1\tnot said yet\tFalse"]
    for dynamic, voter, words in ((False, NEW, "static"), (True, f"1@h:1:{disk_of(9)}", "remove it first")):
        cluster.has_dynamic_quorum = dynamic
        with pytest.raises(ApiError, match=words):
            quorum.add_voter(voter, bootstrap=cluster.bootstrap, dry_run=True)
    quorum.add_voter(NEW, bootstrap=cluster.bootstrap, dry_run=True)
    shown = capsys.readouterr()
    assert shown.out == f"voter {NEW} would be added\n" and "start it first" in shown.err
    assert list(cluster.voters) == [1]


def test_the_results_are_documents_for_scripts(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.has_dynamic_quorum = False
    quorum.make_dynamic(bootstrap=cluster.bootstrap, as_json=True)
    quorum.add_voter(NEW, bootstrap=cluster.bootstrap, as_json=True)
    quorum.remove_voter(f"4:{disk_of(4)}", bootstrap=cluster.bootstrap, as_json=True)
    made, added, removed = map(json.loads, capsys.readouterr().out.splitlines())
    assert made == {"dynamic": True}
    assert added == {"voter_id": 4, "directory_id": disk_of(4), "outcome": "added"}
    assert removed["outcome"] == "removed"


def test_a_voter_is_named_once(cluster: FakeCluster) -> None:
    for given in ({}, {"voter": NEW, "config": "node.toml"}):
        with pytest.raises(ConfigError, match="name the controller as"):
            quorum.add_voter(bootstrap=cluster.bootstrap, **given)


def test_a_person_is_asked_before_a_voter_is_removed(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.voters[4] = disk_of(4), "host-4:9193"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: (_ for _ in ()).throw(typer.Abort()))
    with pytest.raises(typer.Abort):
        quorum.remove_voter(f"1:{disk_of(1)}", bootstrap=cluster.bootstrap)
    with pytest.raises(typer.Abort):
        quorum.make_dynamic(bootstrap=cluster.bootstrap)
    assert 1 in cluster.voters
