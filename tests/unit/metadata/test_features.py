"""Promises of the table of feature levels, of what nodes say of theirs, and of the records that change one."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from metadata.delta import MetadataDelta
from metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SAID_LENGTH_MAX,
    SILENT,
    TABLE,
    FeatureTable,
    FinalizedLevel,
    Level,
    LevelRange,
    ranges_of,
)
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import FeatureLevelRecord, Record, RegisterBrokerRecord
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_id_of

OLD = TABLE.of_release("0.2.0")
LONG = "a=1-2," * SAID_LENGTH_MAX
LATER = FeatureTable(
    replace(one, levels=(*one.levels, Level(3, "0.4.0", "more"))) if one.name == METADATA_VERSION else one
    for one in TABLE.features.values()
)
TO_2, TO_1 = FeatureLevelRecord(METADATA_VERSION, 2, "0.3.0"), FeatureLevelRecord(METADATA_VERSION, 1, "0.2.0")
SAYING = RegisterBrokerRecord(1, "process", 2, "host", 9192, features=TABLE.said)


def image_of(*records: FeatureLevelRecord | RegisterBrokerRecord) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta.apply(len(records) - 1, 1)


def test_levels_of_each_feature_are_a_row_without_a_gap_and_begin_with_the_first_release() -> None:
    for one in TABLE.features.values():
        assert [level.level for level in one.levels] == list(range(one.range.first, one.range.last + 1))
        assert one.levels[0].since == "0.2.0" and one.find(one.without_record) is not None


def test_a_table_of_an_older_release_knows_less_and_says_nothing() -> None:
    assert OLD.ranges == SILENT and OLD.said == "" and OLD.ranges[METADATA_VERSION] == (1, 1)
    assert TABLE.of_release("0.3.0").ranges == TABLE.of_release("0.3.1.dev0").ranges == TABLE.ranges
    assert LATER.of_release("0.3.0").ranges == TABLE.ranges and LATER.releases == ("0.2.0", "0.3.0", "0.4.0")
    assert LATER.newest() == {"group.version": 1, METADATA_VERSION: 3, "transaction.version": 2}
    assert KRAFT_VERSION not in TABLE.levels({}) and TABLE.level({}, "no.such") == 0


@pytest.mark.parametrize("release", ["", "0.3", "v0.3.0", "0.1.0", "0.2", "a.b.c"])
def test_a_release_that_is_none_or_older_than_all_levels_is_refused(release: str) -> None:
    with pytest.raises(ValueError):
        TABLE.of_release(release)


@pytest.mark.parametrize("table", [TABLE, LATER, OLD], ids=["this", "later", "older"])
def test_ranges_are_read_as_they_were_said(table: FeatureTable) -> None:
    assert ranges_of(table.said) == table.ranges


@pytest.mark.parametrize(
    "said",
    ["x", "a=1", "a=1-", "a=2-1", "a=-1-2", "a=1-2,", "a=1-2,a=1-2", "A=1-2", "a=1-99999", "=1-2", "a=1-2 ", LONG],
)
def test_what_is_no_range_is_refused(said: str) -> None:
    with pytest.raises(ValueError):
        ranges_of(said)


def test_a_level_that_a_node_does_not_support_is_told_by_what_it_knows() -> None:
    assert TABLE.lack(METADATA_VERSION, 2) == "" and OLD.lack(METADATA_VERSION, 2) == "it knows metadata.version 1"
    assert TABLE.lack(METADATA_VERSION, 0) == "it knows metadata.version 1 to 2"
    assert TABLE.lack("share.version", 1) == "it does not know share.version"
    assert TABLE.lack("share.version", 0) == "", "level 0 is that of a feature which is not there"
    assert str(LevelRange(0, 0)) == "0"


def test_levels_stand_in_a_snapshot_and_are_read_back() -> None:
    image = image_of(TO_2, FeatureLevelRecord("group.version", 0, "0.2.0"), SAYING)
    assert image.levels == {METADATA_VERSION: (2, "0.3.0"), "group.version": FinalizedLevel(0, "0.2.0")}
    data = b"".join(encode_snapshot(image, 0))
    again = decode_snapshot(data, snapshot_id_of(image))
    assert again == image and again.digest() == image.digest()
    assert data.index(b"metadata.version") < data.index(b"RegisterBroker"), "readers learn the level first"


def test_a_lowering_leaves_nothing_that_an_older_release_cannot_read() -> None:
    image = image_of(TO_2, FeatureLevelRecord("group.version", 0, "0.2.0"), SAYING, TO_1)
    assert image.levels == {} and image.brokers[1].features == ""
    data = b"".join(encode_snapshot(image, 0))
    assert b"FeatureLevel" not in data and b"features" not in data


@pytest.mark.parametrize(
    ("records", "lowers"),
    [((TO_2,), False), ((TO_2, TO_1), True), ((TO_2, TO_1, TO_2), True), ((SAYING,), False)],
)
def test_a_delta_says_that_the_version_was_lowered_in_it(records: tuple[FeatureLevelRecord, ...], lowers: bool) -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    assert delta.lowers_metadata_version is lowers


def test_levels_alone_are_a_difference_between_two_images() -> None:
    assert not MetadataDelta.between(EMPTY_IMAGE, image_of(TO_2)).is_empty
    assert MetadataDelta.between(EMPTY_IMAGE, image_of(TO_2)).levels == {METADATA_VERSION: (2, "0.3.0")}


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "feature-levels.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (?:`([a-z.]+)`)? ?\| (\d) \| ([\d.]+) \| ([^|]+) \| ([^|]*) ?\|$", page)
    first, found = TABLE.features[METADATA_VERSION].levels[0].records, dict[str, list[Level]]()
    for name, level, since, allows, records in rows:
        named = first if records.strip() == "all others" else tuple(re.findall(r"[\w.]+", records))
        found.setdefault(name or next(reversed(found)), []).append(Level(int(level), since, allows, named))
    assert found == {name: list(one.levels) for name, one in TABLE.features.items()}


def test_each_record_of_the_metadata_log_is_of_one_level() -> None:
    of_levels = [name for one in TABLE.features.values() for level in one.levels for name in level.records]
    assert len(set(of_levels)) == len(of_levels)
    types = {each.__name__.removesuffix("Record") for each in get_args(Record)}
    assert {name for name in of_levels if "." not in name} == types
    for name in of_levels:
        record, _, field = name.partition(".")
        cls = next(each for each in get_args(Record) if each.__name__ == f"{record}Record")
        assert not field or field in {one.name for one in fields(cls)}, name
