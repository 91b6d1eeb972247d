"""The demo's judgement: what it says of a log that is right, and of each way in which it may be wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.cli.demo.reading import Table
from penstock.cli.demo.report import Crash, Report, print_report
from penstock.cli.demo.text import Sums, Text
from penstock.client.producer.producer_statistics import ProducerStatistics

KEY = b"a.txt"
TEXT = [b"one\n", b"one\n", b"two\n", b"three\n"]


def sums(numbers: Sequence[int], key: bytes = KEY) -> Sums:
    found = Sums()
    for number in numbers:
        found.add(key, [TEXT[number]])
    return found


def report(log: Sequence[int], table: Sequence[int] | None = None, acked: int = len(TEXT)) -> Report:
    """The report of TEXT streamed, and found as these lines in the log and in the table."""
    sent = Sums()
    sent.add(KEY, TEXT)
    rows = None if table is None else Table(sums(table), 1, 2.0, 1.0)
    crash, counts = Crash(0, 10, 10), ProducerStatistics(records_acked=acked)
    seconds = {"start": 1.0, "stream": 1.0, "read_back": 1.0}
    return Report(Text(Path("."), (), 0), 3, sent, counts, crash, crash, sums(log), rows, seconds)


def failed(made: Report) -> set[str]:
    return {name.partition(",")[0] for name, holds in made.checks().items() if not holds}


def test_a_log_and_a_table_as_they_were_sent_are_right_though_lines_repeat() -> None:
    for made in (report([0, 1, 2, 3]), report([0, 1, 2, 3], [0, 1, 2, 3])):
        assert made.ok and made.lost == 0 and made.as_json()["duplicates_by_retry"] == 0


def test_a_script_gets_one_json_object_with_the_three_counts_and_each_check(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report([0, 1, 2, 3], [0, 1, 2]), as_json=True)
    out, err = capsys.readouterr()
    shown = json.loads(out)
    assert shown["records"] == {"in": 4, "out": 4, "parquet": 3} and not shown["ok"] and shown["lost"] == 0
    assert shown["checksum"]["in"] == shown["checksum"]["out"] != shown["checksum"]["parquet"]
    wrong = [name for name, holds in shown["checks"].items() if not holds]
    assert len(wrong) == 2 and all(f"FAILED: {name}" in err for name in wrong)
    assert (shown["leader_killed"]["failover_ms"], shown["seconds"]["spark"]) == (10, 2.0)


@pytest.mark.parametrize("log", [[0, 1], [0, 2, 3], [2, 3], []])
def test_lines_that_are_missing_are_lost(log: list[int]) -> None:
    made = report(log)
    assert failed(made) == {"nothing lost", "checksum out = in"} and made.lost == len(TEXT) - len(log)


def test_a_batch_that_was_sent_twice_is_counted_and_is_a_failure() -> None:
    made = report([0, 1, 0, 1, 2, 3])
    assert failed(made) == {"nothing twice", "checksum out = in"} and made.as_json()["duplicates_by_retry"] == 2


def test_a_line_that_came_twice_does_not_hide_one_that_is_lost() -> None:
    assert failed(report([0, 1, 2, 2])) == {"checksum out = in"}


def test_lines_in_another_order_are_a_failure() -> None:
    assert failed(report([0, 2, 1, 3])) == {"checksum out = in"}


def test_a_record_that_was_not_acked_is_a_failure() -> None:
    assert failed(report([0, 1, 2, 3], acked=3)) == {"every record acked"}


def test_a_table_with_other_rows_than_the_log_is_a_failure() -> None:
    assert failed(report([0, 1, 2, 3], [0, 1, 2])) == {"rows in Parquet = records out", "checksum in Parquet = in"}
    assert failed(report([0, 1, 2, 3], [0, 1, 3, 2])) == {"checksum in Parquet = in"}


def test_the_checksum_depends_on_keys_and_content_and_not_on_the_order_of_files() -> None:
    def of(*parts: tuple[bytes, int]) -> str:
        found = Sums()
        for key, number in parts:
            found.add(key, [TEXT[number]])
        return found.checksum

    assert of((b"a", 0), (b"b", 2)) == of((b"b", 2), (b"a", 0)) != of((b"a", 2), (b"b", 0))
