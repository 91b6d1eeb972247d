"""Promises about a job's conf: values keep their types, and a mistake is one sentence with file, key and remedy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.catalog import JOBS, describe_job, find_job, run_job
from penstock.pipelines.frame.conf import Duration, RunConf, conf_key, parse_job, read_conf


@dataclass(frozen=True, slots=True, kw_only=True)
class Conf:
    """One key of each type."""

    topic: str = conf_key("the topic to read")
    output: Path = conf_key("a directory", Path("/t"))
    color: str = conf_key("a colour", "red", choices=("red", "blue"))
    count: int = conf_key("how many", 3, minimum=1)
    deep: bool = conf_key("whether it is deep", False)
    watermark: Duration = conf_key("how long", Duration(60_000))
    since: datetime = conf_key("when", datetime(2026, 1, 1, tzinfo=UTC))
    names: tuple[str, ...] = conf_key("which", ())
    columns: dict[str, str] = conf_key("the columns", {})

    def __post_init__(self) -> None:
        if self.count > 100:
            raise ConfigError("count: 100 are enough")


def parse(tmp_path: Path, text: str) -> tuple[Conf, RunConf]:
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    return parse_job("test", Conf, read_conf(path), "job.toml")


def test_values_have_their_types(tmp_path: Path) -> None:
    text = """
        topic = "t"
        output = "/data/x"
        color = "blue"
        count = 100
        deep = true
        watermark = "10 m"
        since = 2026-02-01T00:00:00Z
        names = ["a", "b"]
        [columns]
        id = "string"
        [run]
        every = "5 s"
        [run.spark]
        spark.driver.memory = "2g"
        "spark.ui.enabled" = true
        [run.client]
        request.timeout.ms = 5000
    """
    conf, run = parse(tmp_path, text)
    assert conf == Conf(
        topic="t",
        output=Path("/data/x"),
        color="blue",
        count=100,
        deep=True,
        watermark=Duration(600_000),
        since=datetime(2026, 2, 1, tzinfo=UTC),
        names=("a", "b"),
        columns={"id": "string"},
    )
    assert run.every == Duration(5_000)
    assert run.spark == {"spark.driver.memory": "2g", "spark.ui.enabled": "true"}
    assert run.client_options == {"kafka.request.timeout.ms": "5000"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "job.toml: topic is missing; it is the topic to read"),
        ("topc = 't'", "job.toml: topc: the job test has no such key; did you mean 'topic'?"),
        ("topic = 7", "job.toml: topic = 7 must be a text"),
        ("topic = 't'\ncount = '7'", "job.toml: count = '7' must be a whole number"),
        ("topic = 't'\ncount = true", "job.toml: count = True must be a whole number"),
        ("topic = 't'\ncount = 0", "job.toml: count = 0 must be at least 1"),
        ("topic = 't'\ncount = 101", "job.toml: count: 100 are enough"),
        ("topic = 't'\ncolor = 'green'", "job.toml: color = 'green' must be one of red, blue"),
        *(
            (f"topic = 't'\noutput = '{address}'", f"job.toml: output = '{address}' must be a path on this machine")
            for address in ("s3://bucket/table", "hdfs:/table", "file:///table")
        ),
        ("topic = 't'\ndeep = 'yes'", "job.toml: deep = 'yes' must be true or false"),
        (
            "topic = 't'\nwatermark = '10'",
            "job.toml: watermark = '10' must be a time such as \"10 m\" (ms, s, m, h, d)",
        ),
        ("topic = 't'\nsince = 'now'", "job.toml: since = 'now' must be a date and time such as 2026-01-31T12:00:00Z"),
        ("topic = 't'\nnames = 'a'", "job.toml: names = 'a' must be a list of texts"),
        ("topic = 't'\nrun = 1", "job.toml: 'run' must be a table: [run]"),
        ("topic = 't'\n[run]\nevry = '1 s'", "job.toml: [run] evry: [run] has no such key; did you mean 'every'?"),
    ],
)
def test_a_mistake_names_file_key_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(tmp_path, text)
    assert str(caught.value) == message


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    with pytest.raises(ConfigError, match=rf"^{path}: no such file; give the job's conf with --conf FILE$"):
        read_conf(path)
    path.write_text("topic = \n")
    with pytest.raises(ConfigError, match=rf"^{path}: is not TOML: Invalid value \(at line 1, column 9\)$"):
        read_conf(path)


@pytest.mark.parametrize("text", ["0 s", "250 ms", "90 s", "10 m", "1 h", "7 d"])
def test_a_duration_reads_as_it_was_written(text: str) -> None:
    assert str(Duration.parse(text)) == text


def test_every_job_describes_its_keys() -> None:
    for name in JOBS:
        own, run = describe_job(name)
        assert all(key.meaning for key in own + run)
        assert "every" in {key.name for key in run}


def test_an_unknown_job_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^there is no job 'bronce'; did you mean 'bronze'\?$"):
        run_job("bronce", tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"^there is no job 'xyz'; there are bronze, "):
        find_job("xyz")
