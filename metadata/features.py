"""The table of feature levels: what each level allows, and which release knows it first (KIP-584, KIP-1022). Pure.

A level is *finalized* for the whole cluster by a record of the metadata log, and each node *supports* a range of levels
of each feature. Whatever only a newer release can read may be written only at a level that says so. `metadata.version`
is the level of the metadata's own records: the record of a level is such a record itself, so from 2 on there are some.
A feature without a record has the level that release 0.2.0 had. `kraft.version` is no such record: it is 1 once a
record names the voters (ADR 0036), and is raised with them.

A node is given a table, by default all that this release knows. One of an older release is given `of_release`. A range
is told to others as text, "group.version=0-1,metadata.version=1-2". A node of release 0.2.0 or before says nothing, and
a table that knows no more says nothing, too.

Not here: who may change a level, and when (controller/features.py), and where the levels are kept (replay.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.messages.features import KRAFT_VERSION as KRAFT_VERSION
from penstock.messages.features import METADATA_VERSION as METADATA_VERSION
from penstock.messages.features import release_number

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
LEVELS_ARE_RECORDS: Final = 2
"""The `metadata.version` from which on the metadata log may have records of levels, and registrations say ranges."""
FIRST_RELEASE: Final = "0.2.0"
SAID_LENGTH_MAX: Final = 1_024
"""Characters of a told text of ranges; a leader keeps one for each node."""
NAME_LENGTH_MAX: Final = 64
LEVEL_MAX: Final = 32_767
"""Kafka's protocol has 16 bits for one."""
_RANGE: Final = re.compile(rf"([a-z][a-z0-9.]{{0,{NAME_LENGTH_MAX - 1}}})=(\d{{1,5}})-(\d{{1,5}})")


class LevelRange(NamedTuple):
    """The levels of one feature that a node supports."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


class Level(NamedTuple):
    """One level of a feature."""

    level: int
    since: str  # the first release that knows it
    allows: str
    records: tuple[str, ...] = ()
    """The records of the metadata log that are written from it on: the type of each, or "Type.field" for a field that
    says something. A node that does not know the level may stop at them."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature and its levels, in a row without a gap."""

    name: str
    levels: tuple[Level, ...]
    without_record: int  # its level in a cluster whose metadata has no record of it

    @property
    def range(self) -> LevelRange:
        return LevelRange(self.levels[0].level, self.levels[-1].level)

    def find(self, level: int) -> Level | None:
        return next((one for one in self.levels if one.level == level), None)


class FinalizedLevel(NamedTuple):
    """A level as a record has finalized it."""

    level: int
    since: str  # the first release that knows it, for nodes that do not


Finalized = Mapping[str, FinalizedLevel]
"""The levels that records have finalized, by feature."""


class FeatureTable:
    """The features that a node knows. Immutable."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self.features: Final = {one.name: one for one in sorted(features, key=lambda one: one.name)}
        self.ranges: Final[Mapping[str, LevelRange]] = {name: one.range for name, one in self.features.items()}
        said = ",".join(f"{name}={one.first}-{one.last}" for name, one in self.ranges.items())
        self.said: Final = "" if self.ranges == SILENT else said
        """The ranges as this node tells them to others."""
        metadata = self.features.get(METADATA_VERSION)
        levels = () if metadata is None else metadata.levels
        named = {name: one.level for one in levels for name in one.records}
        self.record_levels: Final[Mapping[str, int]] = {name: level for name, level in named.items() if "." not in name}
        """The `metadata.version` from which on a record is written."""
        self.field_levels: Final[Mapping[str, tuple[tuple[str, int], ...]]] = _by_record(named)
        """The fields of each record that say something only from a level on, each with that level."""

    def of_release(self, release: str) -> FeatureTable:
        """The features and levels that a release knows. ValueError for one that is no number, or older than all."""
        wanted = release_number(release)
        known = {
            name: tuple(level for level in one.levels if release_number(level.since) <= wanted)
            for name, one in self.features.items()
        }
        if wanted < release_number(FIRST_RELEASE):
            raise ValueError(f"feature levels are known from release {FIRST_RELEASE} on")
        return FeatureTable(
            Feature(name, levels, self.features[name].without_record) for name, levels in known.items() if levels
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that brought a level, oldest first."""
        found = {level.since for one in self.features.values() for level in one.levels}
        return tuple(sorted(found, key=release_number))

    def newest(self) -> Mapping[str, int]:
        """The highest level of each feature whose level is a record."""
        return {name: one.last for name, one in self.ranges.items() if name != KRAFT_VERSION}

    def level(self, finalized: Finalized, name: str) -> int:
        """The finalized level of a feature that is a record, or stands without one."""
        found = finalized.get(name)
        return found.level if found is not None else self.without_record(name)

    def without_record(self, name: str) -> int:
        """The level of a feature in a cluster without a record of it; 0 of one that is not known."""
        feature = self.features.get(name)
        return feature.without_record if feature is not None else 0

    def levels(self, finalized: Finalized) -> Mapping[str, int]:
        """The finalized level of each feature of the table or with a record, but `kraft.version`."""
        names = sorted(self.features.keys() | finalized.keys())
        return {name: self.level(finalized, name) for name in names if name != KRAFT_VERSION}

    def since(self, name: str, level: int) -> str:
        """The first release that knows a level; "" of one that this table does not know."""
        feature = self.features.get(name)
        found = feature.find(level) if feature is not None else None
        return found.since if found is not None else ""

    def lack(self, name: str, level: int) -> str:
        """The part of a level that this node lacks, as words of a sentence; "" if it supports it."""
        return lack_of(self.ranges, name, level)

    def unfit(self, finalized: Finalized, ranges: Mapping[str, LevelRange]) -> str:
        """Why a node with these ranges cannot join a cluster with these levels, and what to install; "" if it can."""
        for name, level in self.levels(finalized).items():
            lack = lack_of(ranges, name, level)
            if lack:
                since = finalized[name].since if name in finalized else self.since(name, level)
                return f"{name} is {level} in this cluster, and {lack}. Install {release_words(since)} there"
        return ""

    def __repr__(self) -> str:
        return f"FeatureTable({', '.join(f'{name} {one}' for name, one in self.ranges.items())})"


def _by_record(named: Mapping[str, int]) -> Mapping[str, tuple[tuple[str, int], ...]]:
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    for name, level in named.items():
        record, _, field = name.partition(".")
        if field:
            found[record] = (*found.get(record, ()), (field, level))
    return found


def lack_of(ranges: Mapping[str, LevelRange], name: str, level: int) -> str:
    """The part of a level that a node with these ranges lacks, in words; "" if it supports it. Level 0 of a feature
    that a node does not know is supported: it means that the feature is not there."""
    found = ranges.get(name, LevelRange(0, 0))
    if found.first <= level <= found.last:
        return ""
    return f"it does not know {name}" if name not in ranges else f"it knows {name} {found}"


def release_words(since: str) -> str:
    """Words for the release to install, where a level is known since this one; "": no release is known."""
    return f"release {since} or a newer one" if since else "a newer release"


def ranges_of(said: str) -> Mapping[str, LevelRange]:
    """The ranges that a node has told. ValueError for a text that is none."""
    if not said:
        return SILENT
    if len(said) > SAID_LENGTH_MAX:
        raise ValueError(f"a node's feature levels have at most {SAID_LENGTH_MAX} characters, not {len(said)}")
    found: dict[str, LevelRange] = {}
    for part in said.split(","):
        matched = _RANGE.fullmatch(part)
        if matched is None or matched[1] in found:
            raise ValueError(f"{part[:NAME_LENGTH_MAX]!r} is not NAME=FIRST-LAST, or stands there twice")
        found[matched[1]] = LevelRange(int(matched[2]), int(matched[3]))
    if any(not one.first <= one.last <= LEVEL_MAX for one in found.values()):
        raise ValueError(f"a range of levels goes upwards, to at most {LEVEL_MAX}: {said[:SAID_LENGTH_MAX]!r}")
    return found


SILENT: Final[Mapping[str, LevelRange]] = {
    GROUP_VERSION: LevelRange(0, 1),
    KRAFT_VERSION: LevelRange(0, 1),
    METADATA_VERSION: LevelRange(1, 1),
    TRANSACTION_VERSION: LevelRange(0, 2),
}
"""The ranges of a node that says nothing: of release 0.2.0 or before."""

_OF_FIRST_RELEASE: Final = (
    "AccessControlEntry",
    "BrokerRegistrationChange",
    "ClientQuota",
    "Config",
    "NoOp",
    "Partition",
    "PartitionChange",
    "ProducerIds",
    "RegisterBroker",
    "RemoveAccessControlEntry",
    "RemoveTopic",
    "RemoveUserScramCredential",
    "ScramSecret",
    "Topic",
    "UnregisterBroker",
    "UserScramCredential",
)

TABLE: Final = FeatureTable(
    (
        Feature(
            METADATA_VERSION,
            (
                Level(1, FIRST_RELEASE, "the records of the metadata that release 0.2.0 reads", _OF_FIRST_RELEASE),
                Level(
                    2,
                    "0.3.0",
                    "levels are records of the metadata, and registrations say what a broker supports",
                    ("FeatureLevel", "RegisterBroker.features"),
                ),
            ),
            without_record=1,
        ),
        Feature(
            GROUP_VERSION,
            (
                Level(0, FIRST_RELEASE, "new groups have the classic protocol alone"),
                Level(1, FIRST_RELEASE, "new groups may have the consumer protocol (KIP-848)"),
            ),
            without_record=1,
        ),
        Feature(
            TRANSACTION_VERSION,
            (
                Level(0, FIRST_RELEASE, "producers add each partition to a transaction by a request"),
                Level(1, FIRST_RELEASE, "the same to clients; in Kafka, newer records of the coordinators"),
                Level(2, FIRST_RELEASE, "leaders add partitions, and each end gives the next epoch (KIP-890)"),
            ),
            without_record=2,
        ),
        Feature(
            KRAFT_VERSION,
            (
                Level(0, FIRST_RELEASE, "the quorum's voters are those of controller.quorum.voters"),
                Level(1, FIRST_RELEASE, "voters are disks that can be added and removed (KIP-853)", ("Voters",)),
            ),
            without_record=0,
        ),
    )
)
"""All that this release knows."""
