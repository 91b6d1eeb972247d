"""`penstock quorum … --dry-run` is refused where the change would be, by what the leader says of its voters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.cli import quorum
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    InvalidRequestError,
    PolicyViolationError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo

DISKS = {1: "A" * 22, 2: "B" * 22, 3: "C" * 22}
NEW = "D" * 22
INFO = QuorumInfo(
    1,
    5,
    9,
    tuple(QuorumReplicaInfo(node, 9, 0, 0, disk) for node, disk in DISKS.items()),
    (QuorumReplicaInfo(4, 7, 0, 0, NEW),),
    is_dynamic=True,
)
STATIC = replace(INFO, is_dynamic=False)
ALONE = replace(INFO, voters=INFO.voters[:1])
LEADERLESS = replace(INFO, voters=(), observers=(), is_dynamic=False, only_own_view=True)


class FakeAdmin:
    """Describes the quorum, and can change nothing."""

    def __init__(self, info: QuorumInfo, *, may_alter: bool = True) -> None:
        self._info, self._may_alter = info, may_alter

    def describe_quorum(self) -> QuorumInfo:
        return self._info

    def check_may_alter_cluster(self) -> None:
        if not self._info.has_leader:
            raise AssertionError("nobody answers that")
        if not self._may_alter:
            raise ClusterAuthorizationFailedError("User:guest lacks ALTER on the cluster")


@pytest.fixture
def knows(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the commands ask a quorum of this description."""

    def given(info: QuorumInfo, *, may_alter: bool = True) -> None:
        @contextmanager
        def admin(bootstrap: str) -> Iterator[FakeAdmin]:
            yield FakeAdmin(info, may_alter=may_alter)

        monkeypatch.setattr(quorum, "patient_admin", admin)

    return given


def add(voter: str) -> None:
    quorum.add_voter(voter, dry_run=True)


def remove(voter: str) -> None:
    quorum.remove_voter(voter, dry_run=True)


def unregister(node_id: int) -> None:
    quorum.unregister(node_id, dry_run=True)


@pytest.mark.parametrize(
    ("info", "act", "of", "error"),
    [
        (INFO, add, f"2@h:1:{NEW}", DuplicateVoterError),
        (STATIC, add, f"4@h:1:{NEW}", UnsupportedVersionError),
        (INFO, remove, f"2:{NEW}", VoterNotFoundError),
        (INFO, remove, f"9:{NEW}", VoterNotFoundError),
        (STATIC, remove, f"2:{DISKS[2]}", UnsupportedVersionError),
        (ALONE, remove, f"1:{DISKS[1]}", InvalidRequestError),
        (INFO, unregister, 2, PolicyViolationError),
        (INFO, unregister, 9, ControllerIdNotRegisteredError),
    ],
)
def test_a_dry_run_is_refused_where_the_change_would_be(
    knows: Callable[..., None], info: QuorumInfo, act: Callable[[Any], None], of: object, error: type[ApiError]
) -> None:
    knows(info)
    with pytest.raises(error):
        act(of)


@pytest.mark.parametrize(
    "act",
    [
        lambda: add(f"4@h:1:{NEW}"),
        lambda: remove(f"2:{DISKS[2]}"),
        lambda: unregister(4),
        lambda: quorum.make_dynamic(dry_run=True),
    ],
)
def test_a_dry_run_is_refused_to_a_caller_that_may_not_change_the_quorum(
    knows: Callable[..., None], act: Callable[[], None]
) -> None:
    knows(INFO, may_alter=False)
    with pytest.raises(ClusterAuthorizationFailedError):
        act()


@pytest.mark.parametrize(
    ("act", "of", "shown"),
    [
        (add, f"4@h:1:{NEW}", f"voter 4@h:1:{NEW} would be added"),
        (remove, f"2:{DISKS[2]}", f"voter 2:{DISKS[2]} would be removed"),
        (unregister, 4, "controller 4 would be forgotten"),
    ],
)
def test_a_dry_run_says_what_would_be_done(
    knows: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    act: Callable[[Any], None],
    of: object,
    shown: str,
) -> None:
    for info in (INFO, LEADERLESS):  # of a quorum without a leader nothing is concluded
        knows(info)
        act(of)
        assert capsys.readouterr().out.strip() == shown
