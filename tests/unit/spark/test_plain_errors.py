"""Promises about what a user of Spark reads when something is wrong."""

from __future__ import annotations

import io
import os
import pickle

import pytest
from pyspark.errors import PySparkException
from pyspark.serializers import read_int
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.util import handle_worker_exception

from penstock.errors import ConfigError
from penstock.spark.plain_errors import HIDE_TRACEBACK, sentence_first, sentence_in
from penstock.spark.schema import source_schema
from penstock.spark.source import PenstockDataSource


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment as Spark's workers have it."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    monkeypatch.setenv(HIDE_TRACEBACK, "")


def printed(error: Exception) -> str:
    """The text that Spark's worker tells the JVM of an exception."""
    pipe = io.BytesIO()
    try:
        with sentence_first():
            raise error
    except Exception as raised:
        handle_worker_exception(raised, pipe)
    pipe.seek(0)
    read_int(pipe)
    return pipe.read(read_int(pipe)).decode()


def test_an_error_of_ours_is_its_sentence_alone() -> None:
    assert printed(ConfigError("say it")) == "penstock.errors.ConfigError: say it\n"


def test_any_other_error_keeps_its_stack() -> None:
    assert printed(ValueError("a bug")).startswith("Traceback (most recent call last):\n")


def test_outside_a_worker_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET")
    with pytest.raises(ConfigError), sentence_first():
        raise ConfigError("no")
    assert not os.environ[HIDE_TRACEBACK]


def test_a_stream_with_a_wrong_option_says_so_at_its_first_use() -> None:
    source = PenstockDataSource(CaseInsensitiveDict({"bootstrap": "h:1", "subscribe": "t", "endingOffsets": "latest"}))
    reader = pickle.loads(pickle.dumps(source.streamReader(source_schema(False))))
    for call in (
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(None),
    ):
        with pytest.raises(ConfigError, match="a stream has no end"):
            call()
    reader.stop()


@pytest.mark.parametrize(
    "text",
    [
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [X] Failed when source perform initialOffset: "
        "penstock.errors.ConfigError: say: it\n SQLSTATE: 38000\n=== Streaming Query ===",
        "Job aborted:\n  File x\npenstock.errors.ConfigError: say: it\nat java",
        "[X] failed: penstock.errors.ConfigError: say: it SQLSTATE: 38000 SQLSTATE: XXKST",
    ],
)
def test_the_sentence_is_found_in_sparks_text(text: str) -> None:
    assert sentence_in(text) == ("ConfigError", "say: it")
    assert sentence_in(str(PySparkException("other: thing"))) == ("", "")
