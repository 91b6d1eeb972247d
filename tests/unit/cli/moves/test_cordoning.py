"""`penstock brokers cordon` and `uncordon`: the value that the broker's configuration has then."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.cli.moves.cordoning import Cordons, cordon_broker, uncordon_broker
from penstock.client.admin.admin import Admin
from penstock.client.admin.log_dir_info import LogDirInfo
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.errors import BrokerIdNotRegisteredError, ClusterAuthorizationFailedError, ConfigError, NetworkError
from penstock.messages.configs import ConfigEntry, ConfigSource

KEY = "cordoned.log.dirs"
DIRS = ("/a", "/b", "/c")


class FakeBroker:
    """Stands for an Admin; one broker, with a value of its file, and one of the metadata."""

    def __init__(self, own: str | None = None, file: str = "", *, is_away: bool = False) -> None:
        self.own, self.file, self.is_away = own, file, is_away
        self.lists: list[dict[str, object]] = []

    def describe_broker_config(self, broker_id: int) -> dict[str, ConfigEntry]:
        if self.is_away:
            raise BrokerIdNotRegisteredError("away")
        sources = [ConfigSource.STATIC_BROKER_CONFIG if self.file else ConfigSource.DEFAULT_CONFIG]
        value, source = (self.file, sources[0]) if self.own is None else (self.own, ConfigSource.DYNAMIC_BROKER_CONFIG)
        return {KEY: ConfigEntry(KEY, value, source, "list", "")}

    def describe_log_dirs(self, brokers: list[int]) -> dict[int, BrokerLogDirs]:
        if self.is_away:
            return {brokers[0]: BrokerLogDirs(brokers[0], error=NetworkError("away"))}
        return {brokers[0]: BrokerLogDirs(brokers[0], tuple(LogDirInfo(path, "", None, 1, 1, {}) for path in DIRS))}

    def alter_broker_config(
        self, broker_id: int, changes: dict[str, str | None], *, validate_only: bool, **lists: object
    ) -> None:
        if not validate_only:
            self.own = changes.get(KEY, self.own)
            self.lists += [lists] if lists else []


def of(broker: FakeBroker, *, dry_run: bool = False) -> Cordons:
    return Cordons(cast(Admin, broker), 1, dry_run=dry_run)


def test_a_whole_broker_is_cordoned_and_uncordoned() -> None:
    broker = FakeBroker()
    assert cordon_broker(of(broker), []) == "*" == broker.own
    assert uncordon_broker(of(broker), []) == "" and broker.own is None


@pytest.mark.parametrize(
    ("own", "file", "wanted", "then"),
    [
        (None, "", ["/b"], "/b"),
        ("/a", "", ["/b", "/b/"], "/a,/b"),
        (None, "/a", ["/b"], "/a,/b"),
        ("/a,/b", "", ["/c"], "*"),
        ("/a/ , /b", "", ["/c"], "*"),
        ("*", "", ["/c"], "*"),
    ],
)
def test_log_dirs_are_cordoned_beside_those_that_are(own: str | None, file: str, wanted: list[str], then: str) -> None:
    broker = FakeBroker(own, file)
    assert cordon_broker(of(broker), wanted) == then == broker.own


@pytest.mark.parametrize(
    ("own", "file", "freed", "then"),
    [
        ("/a,/b", "", ["/b"], "/a"),
        ("*", "", ["/b"], "/a,/c"),
        (None, "*", ["/b"], "/a,/c"),
        ("/b", "", ["/b"], ""),
        ("/a, /b/", "", ["/b"], "/a"),
        (None, "*", [], ""),
        ("/a", "*", [], ""),
    ],
)
def test_log_dirs_are_uncordoned_also_where_the_file_of_the_broker_names_them(
    own: str | None, file: str, freed: list[str], then: str
) -> None:
    broker = FakeBroker(own, file)
    assert uncordon_broker(of(broker), freed) == then == broker.own


def test_a_path_that_the_broker_does_not_have_is_refused() -> None:
    broker = FakeBroker()
    with pytest.raises(ConfigError, match="--log-dir /d: broker 1 has /a, /b, /c"):
        cordon_broker(of(broker), ["/d"])
    assert broker.own is None


def test_one_log_dir_of_a_cordoned_broker_that_does_not_say_which_it_has_frees_none() -> None:
    broker = FakeBroker("*")
    broker.describe_log_dirs = lambda brokers: {1: BrokerLogDirs(1, error=ClusterAuthorizationFailedError())}  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="does not say which other log dirs"):
        uncordon_broker(of(broker), ["/b"])
    assert broker.own == "*"


def test_a_broker_that_is_away_is_cordoned_and_its_paths_are_taken_as_they_are() -> None:
    broker = FakeBroker(is_away=True)
    assert cordon_broker(of(broker), ["/d"]) == "/d"
    assert uncordon_broker(of(broker), ["/d"]) == ""
    assert broker.lists == [{"append": {KEY: ["/d"]}}, {"subtract": {KEY: ["/d"]}}]
    assert cordon_broker(of(broker), []) == "*" == broker.own
    assert uncordon_broker(of(broker), []) == "" == broker.own


@pytest.mark.parametrize(("own", "file"), [(None, ""), ("*", ""), (None, "*"), ("/a", "*")])
@pytest.mark.parametrize("dirs", [[], ["/b"]])
def test_a_dry_run_changes_nothing(own: str | None, file: str, dirs: list[str]) -> None:
    broker = FakeBroker(own, file)
    assert cordon_broker(of(broker, dry_run=True), dirs)
    uncordon_broker(of(broker, dry_run=True), dirs)
    assert broker.own == own
