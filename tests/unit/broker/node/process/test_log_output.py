"""The node's log: one line where the same is said many times, JSON that can be read, and levels that change."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from broker.config.log_levels import LogLevels, parse_log_levels, without_module
from broker.node.process.log_output import LINES_MAX, LogOutput
from penstock.errors import ConfigError

INFO = LogLevels(logging.INFO)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger; its handlers and levels are put back."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
    LogOutput(io.StringIO(), 0).apply(LogLevels(level), "text")


def record(text: str, at: float, level: int = logging.WARNING) -> logging.LogRecord:
    made = logging.LogRecord("broker.jobs", level, "jobs.py", 1, text, None, None)
    made.created = at
    return made


def written(*records: logging.LogRecord, form: str = "json") -> list[str]:
    stream = io.StringIO()
    output = LogOutput(stream, 7)
    output.apply(LogLevels(logging.getLogger().level), form)
    for each in records:
        output.handle(each)
    return stream.getvalue().splitlines()


def messages(*records: logging.LogRecord) -> list[str]:
    return [json.loads(line)["message"] for line in written(*records)]


def test_a_line_is_not_repeated_before_30_seconds_and_then_says_how_many_were_left_out() -> None:
    repeated = [record("no quorum", at) for at in (0.0, 0.5, 29.9, 30.0, 30.5, 61.0)]
    assert messages(*repeated) == [
        "no quorum",
        "no quorum (2 more times since the last such line)",
        "no quorum (1 more times since the last such line)",
    ]


def test_a_line_that_cannot_be_formatted_harms_neither_its_caller_nor_other_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = logging.LogRecord("broker.jobs", logging.WARNING, "jobs.py", 1, "%d left", ("many",), None)
    assert messages(bad, record("a", 0)) == ["a"]
    assert "Logging error" in capsys.readouterr().err


def test_the_same_text_with_another_exception_is_another_line() -> None:
    failed = [record("a job failed", at) for at in (0, 1, 2)]
    for each, error in zip(failed, (OSError("a"), OSError("b"), OSError("b")), strict=True):
        each.exc_info = (OSError, error, None)
    assert [json.loads(line)["exception"] for line in written(*failed)] == ["OSError: a", "OSError: b"]


def test_other_lines_are_written_meanwhile() -> None:
    assert messages(record("a", 0), record("b", 0), record("a", 1), record("c", 1)) == ["a", "b", "c"]


def test_a_clock_that_is_set_back_does_not_silence_a_line() -> None:
    assert messages(record("a", 1_000), record("a", 10)) == ["a", "a"]


def test_the_remembered_lines_are_bounded() -> None:
    many = [record(f"line {number}", 0) for number in range(LINES_MAX + 1)]
    assert messages(*many, record("line 0", 1), record(f"line {LINES_MAX}", 1))[LINES_MAX + 1 :] == ["line 0"]


def test_a_json_line_has_all_that_a_collector_needs() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        failed = record("two\nlines", 1_700_000_000.25, logging.ERROR)
        failed.exc_info = (ValueError, error, error.__traceback__)
    (line,) = written(failed)
    found = json.loads(line)
    assert found.pop("exception").endswith("ValueError: why")
    assert found == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "error",
        "logger": "broker.jobs",
        "node": 7,
        "message": "two\nlines",
    }


def test_text_is_one_line_with_time_level_and_logger() -> None:
    (line,) = written(record("slow", 0), form="text")
    assert line.endswith(" WARNING broker.jobs: slow")


def test_levels_hold_until_others_are_applied(root: logging.Logger) -> None:
    output = LogOutput(io.StringIO(), 7)
    output.apply(parse_log_levels(["warning", "broker.jobs=debug"]), "text")
    jobs, raft = logging.getLogger("broker.jobs"), logging.getLogger("raft.driver")
    assert jobs.isEnabledFor(logging.DEBUG) and not raft.isEnabledFor(logging.INFO)
    output.apply(INFO, "text")
    assert not jobs.isEnabledFor(logging.DEBUG) and raft.isEnabledFor(logging.INFO)


@pytest.mark.parametrize(
    ("item", "remedy"),
    [
        (["loud"], 'logger.level = "loud": a level is one of debug, info, warning, error'),
        (["kafka=debug"], 'logger.level = "kafka=debug": a logger begins with one of broker, metadata'),
        (["info", "debug"], 'logger.level: "debug" is a second level of the same logger; keep one'),
        (["raft=info", "raft=debug"], 'logger.level: "raft=debug" is a second level'),
    ],
)
def test_a_wrong_level_names_the_remedy(item: list[str], remedy: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_log_levels(item)
    assert str(error.value).startswith(remedy)


def test_levels_of_modules_that_are_not_there_are_told_and_not_refused() -> None:
    levels = parse_log_levels(
        ["info", "broker.replication=debug", "raft.drivr=debug", "raft.core.x.y=debug", "storage..x=info"]
    )
    assert without_module(levels) == ["raft.drivr", "raft.core.x.y", "storage..x"]


def test_a_name_that_a_client_chose_does_not_look_like_a_line_of_the_log() -> None:
    text = "closed the connection of (client.id x\n1970-01-01 refused {}\r\x1b[2J\x9b)\tand more"
    (first, second) = written(record(text, 0.0), form="text")
    assert first.endswith("WARNING broker.jobs: closed the connection of (client.id x")
    assert second == "    1970-01-01 refused {}\\r\\x1b[2J\\x9b)\tand more"
