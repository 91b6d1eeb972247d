"""Promises about what jobs refuse before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.frame.conf import Duration
from penstock.pipelines.jobs.audit import AuditConf
from penstock.pipelines.jobs.gold import GoldConf
from penstock.pipelines.jobs.silver import SilverConf


def silver(**more: Any) -> SilverConf:
    given: dict[str, Any] = {
        "columns": {"id": "string", "at": "timestamp"},
        "id_column": "id",
        "time_column": "at",
        **more,
    }
    paths = {"input": Path("/in"), "output": Path("/out")}
    return SilverConf(bootstrap="127.0.0.1:1", dead_letter_topic="d", **paths, **given)


def gold(**more: Any) -> GoldConf:
    given: dict[str, Any] = {"measures": {"views": "count(*)"}, **more}
    paths = {"input": Path("/in"), "checkpoint": Path("/c")}
    return GoldConf(bootstrap="127.0.0.1:1", topic="t", time_column="at", **paths, **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: silver(id_column="ID"), "id_column: 'ID' is not in [columns]"),
        (lambda: silver(required=("ad",)), "required: 'ad' is not in [columns]"),
        (lambda: silver(time_column="id"), "time_column: 'id' must have the type \"timestamp\" in [columns]"),
        (
            lambda: silver(columns={"id": "string", "at": "timestamp", "_x": "int"}),
            "[columns] _x: names that begin with",
        ),
        (lambda: silver(watermark=Duration(1)), "watermark = '1 ms' must be at least max_lateness = '10 m'"),
        (lambda: gold(measures={}), "measures is empty; name at least one"),
        (lambda: gold(group_by=("views",)), "[measures] views: the name is taken by the window or a group"),
        (lambda: gold(window=Duration(0)), "window must be longer than 0 s"),
        (lambda: AuditConf(log_dirs=()), "log_dirs is empty; name the log dir of each node"),
    ],
)
def test_a_conf_that_contradicts_itself_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)
