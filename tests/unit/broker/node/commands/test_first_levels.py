"""`penstock node format` lets a new cluster begin with levels: those of a release, and others by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.node.commands.first_levels import LevelOptions, levels_to_begin_with
from broker.node.commands.format import format_if_empty, main
from broker.quorum.features.bootstrap_levels import read_bootstrap_levels, write_bootstrap_levels
from metadata.features import METADATA_VERSION, TABLE
from penstock.config_keys import to_toml
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError
from storage.disk.file_names import BOOTSTRAP_LEVELS
from tests.unit.broker.node.commands.test_format_dynamic import CLUSTER, FS, JOINS, STANDALONE, config_for
from tests.unit.metadata.test_features import LATER

NEWEST = {"group.version": 1, METADATA_VERSION: 2, "transaction.version": 2}


def options(*features: str, release: str = "") -> LevelOptions:
    return LevelOptions(release, features)


def file_of(tmp_path: Path, voters: str = "") -> str:
    path = tmp_path / "node.toml"
    path.write_text(to_toml(config_for(tmp_path, "data", voters=voters).given))
    return str(path)


def test_a_new_cluster_has_the_newest_levels_or_those_of_a_release(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a")
    assert levels_to_begin_with(config, options()) == levels_to_begin_with(config, options(release="0.3.0")) == NEWEST
    assert levels_to_begin_with(config, options(release="0.2.0")) == {}
    assert levels_to_begin_with(config, options("group.version=0")) == {**NEWEST, "group.version": 0}
    assert levels_to_begin_with(config, options("metadata.version=2", release="0.2.0")) == NEWEST
    assert levels_to_begin_with(config, options(release="0.3.0"), table=LATER) == NEWEST
    assert levels_to_begin_with(config, options(), joins="--join") == {}
    broker = config_for(tmp_path, "a", roles="broker", voters="9@127.0.0.1:9193")
    assert levels_to_begin_with(broker, options()) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (options(release="0.1.0"), "from release 0.2.0 on; there are 0.2.0, 0.3.0"),
        (options(release="new"), "is not a release"),
        (options("no.such=1"), "there is no such feature; there are group.version"),
        (options("metadata.version"), "must be metadata.version=LEVEL, and the level 1 to 2"),
        (options("metadata.version=0"), "the level 1 to 2"),
        (options("metadata.version=3"), "the level 1 to 2"),
        (options("metadata.version=-1"), "the level 1 to 2"),
        (options("metadata.version=²"), "the level 1 to 2"),
        (options("group.version=1", "group.version=0"), "group.version is there twice"),
        (options("kraft.version=1"), "begins with --standalone or --initial-controllers"),
        (options("group.version=0", release="0.2.0"), "needs metadata.version 2 or higher, and it is 1"),
    ],
)
def test_options_that_are_no_levels_are_refused(tmp_path: Path, given: LevelOptions, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        levels_to_begin_with(config_for(tmp_path, "a"), given)
    assert expected in str(error.value)


def test_options_are_for_controllers_of_a_new_cluster(tmp_path: Path) -> None:
    broker = config_for(tmp_path, "a", roles="broker", voters="9@127.0.0.1:9193")
    with pytest.raises(ConfigError, match="is for controllers"):
        levels_to_begin_with(broker, options(release="0.2.0"))
    with pytest.raises(ConfigError, match="--feature is for a new cluster, and --join"):
        levels_to_begin_with(config_for(tmp_path, "a"), options("group.version=0"), joins="--join")


def test_format_writes_the_levels_beside_the_metadata_log_and_not_twice(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    main(path, CLUSTER, quorum=STANDALONE, levels=options("group.version=0"))
    assert read_bootstrap_levels(FS, str(tmp_path / "data")) == {**NEWEST, "group.version": 0}
    with pytest.raises(MetaPropertiesError, match=r"already: leave --feature out.* if no node has started yet"):
        main(path, CLUSTER, quorum=STANDALONE, levels=options("group.version=0"))


def test_a_controller_that_joins_has_no_levels_to_begin_with(tmp_path: Path) -> None:
    main(file_of(tmp_path), CLUSTER, quorum=JOINS)
    assert read_bootstrap_levels(FS, str(tmp_path / "data")) == {}


def test_a_start_that_formats_begins_with_the_newest_levels(tmp_path: Path) -> None:
    format_if_empty(file_of(tmp_path, "1@127.0.0.1:9193"), CLUSTER)
    assert read_bootstrap_levels(FS, str(tmp_path / "data")) == TABLE.newest()


@pytest.mark.parametrize("content", ["{}", '{"levels": [], "data_version": 1}', '{"levels": {}, "data_version": 9}'])
def test_a_damaged_file_of_levels_is_named(tmp_path: Path, content: str) -> None:
    write_bootstrap_levels(FS, str(tmp_path), NEWEST)
    (tmp_path / BOOTSTRAP_LEVELS).write_text(content)
    with pytest.raises(CorruptFileError, match=BOOTSTRAP_LEVELS):
        read_bootstrap_levels(FS, str(tmp_path))
    write_bootstrap_levels(FS, str(tmp_path), {METADATA_VERSION: -1})
    with pytest.raises(CorruptFileError, match="a level is not a number"):
        read_bootstrap_levels(FS, str(tmp_path))
