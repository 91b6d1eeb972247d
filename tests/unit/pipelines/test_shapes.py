"""Promises about confs that change under what an earlier run has left: a checkpoint is never read as another one's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.catalog import JOBS, describe_job
from penstock.pipelines.frame.conf import Duration
from penstock.pipelines.frame.shapes import CHECKPOINT_SHAPE, shape_of
from penstock.pipelines.jobs.bronze import BronzeConf
from penstock.pipelines.jobs.gold import GoldConf, check_gold
from penstock.pipelines.jobs.silver import SilverConf
from penstock.pipelines.jobs.table_to_topic import TableToTopicConf

NOBODY = "127.0.0.1:1"


def gold(lake: Path, **more: Any) -> GoldConf:
    given: dict[str, Any] = {
        "input": lake / "silver",
        "checkpoint": lake / "gold",
        "topic": "t",
        "time_column": "at",
        "group_by": ("page", "action"),
        "measures": {"views": "count(*)", "cents": "sum(cents)", "paid": "sum(paid)"},
        **more,
    }
    return GoldConf(bootstrap=NOBODY, **given)


def silver(lake: Path, **more: Any) -> SilverConf:
    given: dict[str, Any] = {
        "input": lake / "bronze",
        "output": lake / "silver",
        "columns": {"id": "string", "page": "string", "at": "timestamp", "seen": "timestamp"},
        "id_column": "id",
        "time_column": "at",
        **more,
    }
    return SilverConf(bootstrap=NOBODY, dead_letter_topic="d", **given)


def bronze(lake: Path, **more: Any) -> BronzeConf:
    return BronzeConf(**{"bootstrap": NOBODY, "topic": "t", "output": lake / "bronze", **more})


def table_to_topic(lake: Path, **more: Any) -> TableToTopicConf:
    given = {"bootstrap": NOBODY, "topic": "t", "input": lake / "bronze", "checkpoint": lake / "again", **more}
    return TableToTopicConf(**given)


Make = Callable[..., Any]
QUERIES: dict[Make, str] = {gold: "", silver: "dead-letters", bronze: "", table_to_topic: ""}


def begin(conf: Any, query: str) -> None:
    """As Spark does when it plans the first micro-batch."""
    conf.shape.keep(conf)
    offsets = conf.shape.checkpoint / query / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n")


@pytest.mark.parametrize(
    ("make", "more", "message"),
    [
        (
            gold,
            {"group_by": ("action", "page")},
            r"group_by = \['action', 'page'\], but .*/gold was begun with \['page",
        ),
        (gold, {"window": Duration(60_000)}, "window = '1 m', but .*/gold was begun with '5 m'; keep that, or choose "),
        (gold, {"watermark": Duration(60_000)}, "watermark = '1 m', but .* was begun with '1 h'"),
        (gold, {"where": "paid > 0"}, "where = 'paid > 0', but .* was begun with ''; keep that"),
        (gold, {"time_column": "seen"}, "time_column = 'seen', but .* was begun with 'at'"),
        (
            gold,
            {"topic": "u"},
            "topic = 'u', but .* was begun with 't'; keep that, or choose another topic and another",
        ),
        (gold, {"input": Path("/moved")}, "input = '/moved', but .* was begun with '.*/silver'"),
        (
            gold,
            {"measures": {"views": "count(*)", "paid": "sum(paid)", "cents": "sum(cents)"}},
            r"measures = .*'paid', 'sum\(paid\)'\], \['cents', .* was begun with ",
        ),
        (silver, {"id_column": "page"}, "id_column = 'page', but .*/silver/_checkpoint was begun with 'id'; keep that"),
        (silver, {"time_column": "seen"}, "time_column = 'seen', but .* was begun with 'at'"),
        (silver, {"input": Path("/moved")}, "input = '/moved', but"),
        (
            silver,
            {"columns": {"id": "bigint", "page": "string", "at": "timestamp"}},
            r"columns.id = 'bigint', but .* was begun with 'string'",
        ),
        (bronze, {"topic": "u"}, "topic = 'u', but .*/bronze/_checkpoint was begun with 't'"),
        (bronze, {"partition_by": "none"}, "partition_by = 'none', but .* was begun with 'date'"),
        (bronze, {"include_headers": True}, "include_headers = True, but .* was begun with False"),
        (
            table_to_topic,
            {"topic": "u"},
            "topic = 'u', but .*/again was begun with 't'; keep that, or choose another ch",
        ),
        (table_to_topic, {"input": Path("/moved")}, "input = '/moved', but"),
    ],
)
def test_a_checkpoint_that_was_begun_with_another_conf_is_refused(
    tmp_path: Path, make: Make, more: dict[str, Any], message: str
) -> None:
    first = make(tmp_path)
    begin(first, QUERIES[make])
    first.shape.check(first)
    other = make(tmp_path, **more)
    for refuse in (other.shape.check, other.shape.keep):
        with pytest.raises(ConfigError, match=message):
            refuse(other)
    first.shape.check(first)


def test_an_output_that_moved_away_from_its_checkpoint_is_refused(tmp_path: Path) -> None:
    """The checkpoint says that the first rows are written; the other table would never get them."""
    for make in (bronze, silver):
        first = make(tmp_path, checkpoint=str(tmp_path / make.__name__ / "apart"))
        begin(first, QUERIES[make])
        moved = replace(first, output=tmp_path / "other")
        with pytest.raises(ConfigError, match=r"output = '.*/other', but .*/apart was begun with"):
            moved.shape.check(moved)


@pytest.mark.parametrize(
    ("make", "more"),
    [
        (gold, {"bootstrap": "other:1"}),
        (silver, {"max_lateness": Duration(1), "max_earliness": Duration(1), "required": ("page",)}),
        (silver, {"dead_letter_topic": "e", "watermark": Duration(40 * 60_000)}),
        (bronze, {"bootstrap": "other:1", "max_offsets_per_trigger": 5, "fail_on_data_loss": False}),
        (table_to_topic, {"value": "value", "key": "key"}),
    ],
)
def test_what_no_row_of_an_earlier_run_depends_on_is_free(tmp_path: Path, make: Make, more: dict[str, Any]) -> None:
    first = make(tmp_path)
    begin(first, QUERIES[make])
    other = replace(first, **more)
    other.shape.keep(other)


def test_columns_come_and_go_and_come_back_with_the_type_that_they_had(tmp_path: Path) -> None:
    first = silver(tmp_path)
    begin(first, "silver")
    few = replace(first, columns={name: kind for name, kind in first.columns.items() if name != "page"})
    more = replace(few, columns={**few.columns, "cents": "bigint"})
    for conf in (few, more, replace(more, columns={**more.columns, "page": "string"})):
        conf.shape.keep(conf)
    wrong = replace(more, columns={**more.columns, "page": "int"})
    with pytest.raises(ConfigError, match=r"columns.page = 'int', but .* was begun with 'string'"):
        wrong.shape.check(wrong)


def test_a_run_that_never_began_leaves_the_conf_free(tmp_path: Path) -> None:
    first = gold(tmp_path, measures={"n": "coun(*)"})
    first.shape.keep(first)  # then Spark refuses the expression
    mended = gold(tmp_path, measures={"n": "count(*)"})
    begin(mended, "")
    with pytest.raises(ConfigError, match="measures = "):
        first.shape.check(first)


def test_a_checkpoint_of_an_earlier_version_is_taken_as_begun_with_the_present_conf(tmp_path: Path) -> None:
    conf = gold(tmp_path)
    begin(conf, "")
    path = conf.checkpoint / CHECKPOINT_SHAPE
    path.unlink()
    conf.shape.keep(conf)
    shape = json.loads(path.read_text())
    assert shape == shape_of(conf)
    path.write_text(json.dumps({name: value for name, value in shape.items() if name != "where"}))  # a key that is new
    conf.shape.keep(conf)
    with pytest.raises(ConfigError, match="where = 'x', but"):
        gold(tmp_path, where="x").shape.check(gold(tmp_path, where="x"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_a_damaged_shape_is_named(tmp_path: Path, content: bytes) -> None:
    conf = gold(tmp_path)
    begin(conf, "")
    (conf.checkpoint / CHECKPOINT_SHAPE).write_bytes(content)
    with pytest.raises(ConfigError, match=r"gold/_shape.json is damaged; choose another topic and another checkpoint"):
        conf.shape.check(conf)


def test_a_checkpoint_that_cannot_be_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "gold").touch()
    conf = gold(tmp_path)
    with pytest.raises(ConfigError, match=r"gold is not a directory; choose another topic and another checkpoint"):
        conf.shape.keep(conf)


def test_a_job_refuses_before_it_asks_the_cluster_or_starts_spark(tmp_path: Path) -> None:
    begin(gold(tmp_path), "")
    with pytest.raises(ConfigError, match="window = '1 m', but"):
        check_gold(gold(tmp_path, window=Duration(60_000)))


def test_the_description_of_a_job_says_which_keys_are_fixed() -> None:
    for name in JOBS:
        described = {key.name: key.meaning for key in describe_job(name)[0]}
        assert any("fixed by" in meaning for meaning in described.values()) == (
            name in ("bronze", "silver", "gold", "backfill", "table-to-topic")
        )
    silver_keys = {key.name: key.meaning for key in describe_job("silver")[0]}
    assert silver_keys["id_column"].endswith("(fixed by the first run)")
    assert silver_keys["columns"].endswith("(each fixed by its first run)")
    assert "fixed" not in silver_keys["max_lateness"]
