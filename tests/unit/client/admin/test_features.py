"""Admin and `penstock features` describe the levels of features, raise them and lower them (KIP-584)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from penstock import Admin
from penstock.cli import features
from penstock.client.admin.feature_calls import FeatureChange
from penstock.errors import ConfigError, InvalidUpdateVersionError
from penstock.messages.features import METADATA_VERSION, FeatureRange
from tests.support.fake_broker import FakeCluster

RAISED = {METADATA_VERSION: 2}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as found:
        yield found


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as found:
        yield found


def test_features_are_described_with_their_levels_and_what_the_nodes_support(admin: Admin) -> None:
    found = admin.describe_features()
    feature = found.feature(METADATA_VERSION)
    assert feature is not None and (feature.first, feature.last, feature.level) == (0, 2, 1)
    assert [level.since for level in feature.levels] == ["0.2.0", "0.3.0"] and not found.only_own_view
    assert found.nodes[0].ranges == (FeatureRange(METADATA_VERSION, 1, 2),) and found.nodes[1].last_heard_ms_ago == -1
    assert found.levels_of("0.2.0") == {"group.version": 1, METADATA_VERSION: 1} and found.feature("no.such") is None
    with pytest.raises(ValueError, match=r"from release 0\.2\.0 on"):
        found.levels_of("0.1.0")


def test_levels_are_raised_and_lowered(cluster: FakeCluster, admin: Admin) -> None:
    assert admin.upgrade_features(RAISED).changes == (FeatureChange(METADATA_VERSION, 1, 2),)
    assert cluster.levels[METADATA_VERSION] == 2
    admin.downgrade_features({METADATA_VERSION: 1})
    assert cluster.levels[METADATA_VERSION] == 1


def test_a_refusal_is_raised_and_with_dry_run_told_with_the_nodes(cluster: FakeCluster, admin: Admin) -> None:
    cluster.supported = 1
    with pytest.raises(InvalidUpdateVersionError, match="node 1 does not know 2"):
        admin.upgrade_features(RAISED)
    found = admin.upgrade_features(RAISED, dry_run=True)
    assert isinstance(found.refusal, InvalidUpdateVersionError) and found.hindrances[0].node_id == 1


def test_a_dry_run_changes_nothing(cluster: FakeCluster, admin: Admin) -> None:
    assert admin.upgrade_features(RAISED, dry_run=True).refusal is None and cluster.levels[METADATA_VERSION] == 1


def test_a_change_whose_answer_was_lost_is_asked_for_again(cluster: FakeCluster, admin: Admin) -> None:
    cluster.loses_next_voter_change = True
    admin.upgrade_features(RAISED)
    assert cluster.levels[METADATA_VERSION] == 2


@pytest.mark.parametrize(
    ("levels", "error"),
    [({}, ValueError), ({"": 1}, ValueError), ({"a": -1}, ValueError), ({"a": "1"}, TypeError), ({1: 1}, TypeError)],
)
def test_levels_that_are_none_are_refused_before_anybody_is_asked(
    admin: Admin, levels: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        admin.upgrade_features(levels)


def test_the_command_says_what_was_done_and_what_hinders(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    features.describe(cluster.bootstrap)
    assert "metadata.version\t0\t2\t1\t0.2.0\twhat was" in capsys.readouterr().out
    features.describe(cluster.bootstrap, as_json=True)
    assert json.loads(capsys.readouterr().out)["features"][0]["feature"] == "group.version"
    features.upgrade(["metadata.version=2"], dry_run=True, bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "metadata.version would be upgraded to 2\n"
    features.upgrade(release_version="0.3.0", bootstrap=cluster.bootstrap, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert {one["feature"]: one["level"] for one in printed["changes"]} == {"group.version": 2, "metadata.version": 2}
    features.upgrade(["metadata.version=2"], bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "metadata.version is 2 already\n"
    features.upgrade(release_version="0.3.0", bootstrap=cluster.bootstrap)
    assert capsys.readouterr() == ("nothing to do: every feature has that level, or is beyond it\n", "")
    features.upgrade(release_version="99.0.0", bootstrap=cluster.bootstrap)
    assert "release 99.0.0 is newer than this penstock" in capsys.readouterr().err
    features.downgrade(release_version="0.2.0", bootstrap=cluster.bootstrap)
    assert "metadata.version was downgraded to 1" in capsys.readouterr().out
    features.downgrade(release_version="0.2.0", bootstrap=cluster.bootstrap)
    assert "nothing to do" in capsys.readouterr().out
    cluster.supported = 1
    with pytest.raises(typer.Exit):
        features.upgrade(["metadata.version=2"], dry_run=True, bootstrap=cluster.bootstrap)
    printed = capsys.readouterr()
    assert "node 1 is too old" in printed.out and "it would be refused" in printed.err
    with pytest.raises(typer.Exit):
        features.upgrade(["metadata.version=2"], dry_run=True, bootstrap=cluster.bootstrap, as_json=True)
    assert json.loads(capsys.readouterr().out)["hindrances"][0]["node_id"] == 1


@pytest.mark.parametrize(
    ("given", "release", "expected"),
    [
        (None, "", "name levels by"),
        (["a=1"], "0.3.0", "name levels by"),
        (["a"], "", "must be NAME=LEVEL"),
        (["=1"], "", "must be NAME=LEVEL"),
        (["a=-1"], "", "must be NAME=LEVEL"),
        (["a=1234567"], "", "must be NAME=LEVEL"),
        (["a=1", "a=2"], "", "there twice"),
        (None, "0.3", "is not a release"),
        (None, "0.1.0", "known from release"),
    ],
)
@pytest.mark.parametrize("command", [features.upgrade, features.downgrade])
def test_words_that_name_no_level_are_refused(
    cluster: FakeCluster, command: Callable[..., None], given: list[str] | None, release: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        command(given, release_version=release, bootstrap=cluster.bootstrap)


def test_a_release_that_the_active_controller_does_not_know_is_not_taken_for_done(cluster: FakeCluster) -> None:
    features.upgrade(release_version="0.3.0", bootstrap=cluster.bootstrap)
    features.upgrade(release_version="0.4.0", bootstrap=cluster.bootstrap)  # brings no level, as all nodes know
    cluster.supported = 3
    with pytest.raises(InvalidUpdateVersionError, match=r"not know the levels of release 0\.4\.0, and node 0 does"):
        features.upgrade(release_version="0.4.0", bootstrap=cluster.bootstrap)
    features.upgrade(release_version="0.3.0", bootstrap=cluster.bootstrap)


def test_an_unsafe_downgrade_is_shown_first(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    features.downgrade(["group.version=0"], unsafe=True, bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "group.version was downgraded to 0\n"
