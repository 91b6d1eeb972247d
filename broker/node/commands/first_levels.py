"""The feature levels with which `penstock node format` lets a new cluster begin: `--release-version`, `--feature`.

    --release-version V     the newest levels that release V knows; without it those of this release
    --feature NAME=LEVEL    another level of one feature; may be repeated

As with Kafka's tool. A cluster whose nodes are not all of this release yet begins with the levels of the oldest one.
Pure. Not here: the file that keeps them for the first active controller (broker/quorum/features/bootstrap_levels.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.config.node_config import NodeConfig
from metadata.features import KRAFT_VERSION, LEVELS_ARE_RECORDS, METADATA_VERSION, TABLE, FeatureTable
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

RELEASE_VERSION, FEATURE = "--release-version", "--feature"


@dataclass(frozen=True, slots=True)
class LevelOptions:
    """The options of one `penstock node format` for the levels."""

    release_version: str = ""
    features: tuple[str, ...] = ()

    @property
    def given(self) -> str:
        """The first one, as it is written; "" if there is none."""
        return RELEASE_VERSION if self.release_version else FEATURE if self.features else ""


NO_LEVEL_OPTIONS: Final = LevelOptions()


def levels_to_begin_with(
    config: NodeConfig, options: LevelOptions, *, joins: str = "", table: FeatureTable = TABLE
) -> Mapping[str, int]:
    """The levels of a new cluster, for a controller; none for another node. ConfigError for options that do not fit:
    `joins` is the one by which the node joins a cluster that has begun."""
    if options.given and not config.is_controller:
        raise ConfigError(f"{options.given} is for controllers, which have the metadata; format one of them so")
    if options.given and joins:
        raise ConfigError(
            f"{options.given} is for a new cluster, and {joins} for one that has begun: leave {options.given} out, and"
            " see `penstock features describe`"
        )
    if joins or not config.is_controller:
        return {}
    levels = dict(_of_release(options.release_version, table).newest())
    chosen: set[str] = set()
    for text in options.features:
        name, level = _parsed(text, table)
        if name in chosen:
            raise ConfigError(f"{FEATURE}: {name} is there twice")
        chosen.add(name)
        levels[name] = level
    if levels[METADATA_VERSION] < LEVELS_ARE_RECORDS:
        for name, level in levels.items():
            if name != METADATA_VERSION and level != table.without_record(name) and name in chosen:
                raise ConfigError(
                    f"{FEATURE} {name}={level} needs {METADATA_VERSION} {LEVELS_ARE_RECORDS} or higher, and it is"
                    f" {levels[METADATA_VERSION]}"
                )
        return {}
    return levels


def _of_release(release: str, table: FeatureTable) -> FeatureTable:
    try:
        return table.of_release(release) if release else table
    except ValueError as error:
        raise ConfigError(f"{RELEASE_VERSION} {release[:32]}: {error}; there are {', '.join(table.releases)}") from None


def _parsed(text: str, table: FeatureTable) -> tuple[str, int]:
    name, _, level = text.partition("=")
    known = table.ranges.get(name)
    if name == KRAFT_VERSION:
        raise ConfigError(
            f"{FEATURE} {KRAFT_VERSION}: a quorum of disks begins with --standalone or --initial-controllers"
        )
    if known is None:
        names = ", ".join(one for one in table.ranges if one != KRAFT_VERSION)
        raise ConfigError(f"{FEATURE} {text[:64]!r}: there is no such feature; there are {names}")
    if not level.isascii() or not level.isdecimal() or len(level) > 5 or not known.first <= int(level) <= known.last:
        raise ConfigError(f"{FEATURE} {text[:64]!r} must be {name}=LEVEL, and the level {known}")
    return name, int(level)
