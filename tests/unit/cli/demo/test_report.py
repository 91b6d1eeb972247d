"""The demo's judgement: what it says of a log that is right, and of each way in which it may be wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.demo.faults import Fault, Faults
from penstock.cli.demo.report import RunReport, checksum
from penstock.cli.demo.source import SourcePlan
from penstock.cli.demo.stream import LINE_HEADER, FileSum, Streamed
from penstock.cli.demo.verify import BackReader
from penstock.client.consumer.consumer_record import ConsumerRecord

KEY = b"a.txt"
TEXT = [b"one\n", b"one\n", b"two\n"]


def report(numbers: Sequence[int]) -> RunReport:
    """The report of TEXT streamed, and read back as these lines."""
    content = b"".join(TEXT)
    sums = {KEY: FileSum(len(TEXT), len(content), hashlib.sha256(content).digest())}
    reader = BackReader()
    for offset, number in enumerate(numbers):
        headers = ((LINE_HEADER, b"%d" % number),)
        reader.add(ConsumerRecord("demo", 0, offset, 0, 0, KEY, TEXT[number], headers))
    fault = Fault(0, 1, 10, 10)
    streamed = Streamed(sums, acked=len(TEXT), failed=0, retried=0, seconds=1.0)
    return RunReport(SourcePlan(Path("."), (), 0), 3, 1.0, streamed, Faults(fault, fault), reader.finish(), None)


def test_a_log_as_it_was_sent_is_right_though_lines_repeat() -> None:
    told = report([0, 1, 2])
    assert told.ok and told.lost == 0 and told.read.duplicates == set()


def test_a_batch_that_was_sent_twice_is_counted_at_its_place_and_is_no_failure() -> None:
    told = report([0, 1, 0, 1, 2])
    assert told.ok and told.read.duplicates == {(0, 2), (0, 3)}
    assert told.as_json()["duplicates_by_retry"] == 2


def test_a_line_that_is_missing_is_lost() -> None:
    for numbers in ([0, 1], [0, 2], [1, 2], []):
        told = report(numbers)
        assert not told.ok and told.lost >= 1, numbers


def test_lines_in_another_order_are_a_failure() -> None:
    told = report([0, 2, 1])
    assert not told.ok and not told.checks()["order kept in every file"]


def test_the_checksum_depends_on_keys_and_content_and_not_on_the_order_of_files() -> None:
    one, two = FileSum(1, 1, b"x" * 32), FileSum(1, 1, b"y" * 32)
    assert checksum({b"a": one, b"b": two}) == checksum({b"b": two, b"a": one})
    assert checksum({b"a": one, b"b": two}) != checksum({b"a": two, b"b": one})
