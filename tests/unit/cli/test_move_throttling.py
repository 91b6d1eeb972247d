"""The throttle of a command that moves replicas: what was there before holds again, and a stop says that it stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from penstock.cli.moves.reassignments import start
from penstock.cli.moves.throttling import KEYS, LOG_DIR_KEYS, throttled
from penstock.client.admin.admin import Admin
from penstock.errors import ConfigError, RequestTimedOutError
from penstock.messages.configs import ConfigEntry

LEADER, FOLLOWER = KEYS


class Brokers:
    """The configuration of all brokers."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)
        self.fails = False

    def describe_broker_config(self, node_id: int | None) -> dict[str, ConfigEntry]:
        assert node_id is None
        source = "DYNAMIC_DEFAULT_BROKER_CONFIG"
        return {key: ConfigEntry(key, value, source, "LONG", "") for key, value in self.values.items()}

    def alter_broker_config(self, node_id: int | None, changes: Mapping[str, Any]) -> None:
        assert node_id is None
        if self.fails:
            raise RequestTimedOutError("no controller")
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = str(value)

    @property
    def admin(self) -> Admin:
        return cast(Admin, self)


def test_within_the_command_both_sides_are_throttled_and_then_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({"log.retention.ms": "7"})
    with throttled(brokers.admin, 1000):
        assert brokers.values == {"log.retention.ms": "7", LEADER: "1000", FOLLOWER: "1000"}
    assert brokers.values == {"log.retention.ms": "7"} and not capsys.readouterr().err


def test_a_throttle_that_was_there_comes_back_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({FOLLOWER: "50"})
    with throttled(brokers.admin, 1000):
        assert brokers.values == {LEADER: "1000", FOLLOWER: "1000"}
    assert brokers.values == {FOLLOWER: "50"}
    printed = capsys.readouterr().err
    assert "no for leaders and 50 for followers" in printed and f"--unset {LEADER} --unset {FOLLOWER}" in printed


def test_a_command_that_is_stopped_leaves_the_throttle_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({})
    with pytest.raises(KeyboardInterrupt), throttled(brokers.admin, 1000):
        raise KeyboardInterrupt
    assert brokers.values == {LEADER: "1000", FOLLOWER: "1000"}
    assert "stays" in capsys.readouterr().err


def test_a_throttle_that_somebody_else_set_meanwhile_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """A second command would copy without one, and bring this one's back when it ends."""
    brokers = Brokers({})
    with throttled(brokers.admin, 1000):
        brokers.values[LEADER] = "2000"
    assert brokers.values == {LEADER: "2000", FOLLOWER: "1000"}
    assert "somebody else has changed the throttle" in capsys.readouterr().err


def test_a_throttle_that_somebody_else_ended_meanwhile_stays_ended(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({LEADER: "50"})
    with throttled(brokers.admin, 1000):
        brokers.values.clear()
    assert brokers.values == {}
    assert capsys.readouterr().err.strip() == "somebody else has ended the throttle meanwhile: there is none now"


def test_a_throttle_that_could_not_be_taken_back_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({})
    with pytest.raises(RequestTimedOutError), throttled(brokers.admin, 1000):
        brokers.fails = True
    assert f"stays; `penstock configs alter --broker-default --unset {LEADER}" in capsys.readouterr().err


def test_a_throttle_of_which_nobody_knows_whether_it_was_set_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({})
    brokers.fails = True
    with pytest.raises(RequestTimedOutError), throttled(brokers.admin, 1000):
        pytest.fail("the block must not run")
    assert "stays" in capsys.readouterr().err


def test_moves_between_log_dirs_have_a_throttle_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    (rate,) = LOG_DIR_KEYS
    brokers = Brokers({LEADER: "3", rate: "50"})
    with throttled(brokers.admin, 1000, LOG_DIR_KEYS):
        assert brokers.values == {LEADER: "3", rate: "1000"}
    assert brokers.values == {LEADER: "3", rate: "50"}
    assert f"50 for moves between log dirs; `penstock configs alter --broker-default --unset {rate}`" in (
        capsys.readouterr().err
    )


def test_a_throttle_stays_where_moves_go_on_after_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers({})
    with throttled(brokers.admin, 1000) as hold:
        hold.stays = True
    assert brokers.values == {LEADER: "1000", FOLLOWER: "1000"}
    assert "the throttle of 1000 bytes a second stays" in capsys.readouterr().err


def test_without_a_throttle_nothing_is_asked_and_nothing_changes() -> None:
    brokers = Brokers({FOLLOWER: "50"})
    brokers.describe_broker_config = pytest.fail  # type: ignore[assignment, method-assign]
    with throttled(brokers.admin, None):
        assert brokers.values == {FOLLOWER: "50"}
    assert brokers.values == {FOLLOWER: "50"}


def test_a_throttle_that_nobody_would_take_away_is_refused() -> None:
    with pytest.raises(ConfigError, match="give --wait, too"):
        start(["orders-0=1"], throttle=5)
