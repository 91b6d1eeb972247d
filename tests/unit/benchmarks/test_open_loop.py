"""Promises of the open loop: latencies count from when a record was due, and no record may be left without an ack."""

from __future__ import annotations

import json

import pytest

from benchmarks.broker_client_common import OpenLoop

RATE = 1_000_000


def test_a_loop_whose_records_were_all_acked_reports_them(capsys: pytest.CaptureFixture[str]) -> None:
    loop = OpenLoop(10, RATE)
    loop.run(loop.acked)
    loop.report()
    found = json.loads(capsys.readouterr().out)
    assert (found["acked"], found["records"], found["rate"]) == (8, 8, RATE), "the first fifth is not counted"
    assert 0 <= found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]


@pytest.mark.parametrize("failed", [0, 9])
def test_a_record_without_an_ack_fails_the_row_even_among_those_that_are_not_counted(
    failed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = OpenLoop(10, RATE)
    loop.run(lambda index: loop.acked(index) if index != failed else None)
    with pytest.raises(SystemExit, match="1 of 10 records were not acked"):
        loop.report()
    assert capsys.readouterr().out == ""
