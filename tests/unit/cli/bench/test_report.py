"""The report of a bench: intervals that add up to the run, percentiles, and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.cli.bench.line_plot import Panel, nice_step, plot
from penstock.cli.bench.report import ROWS_MAX, Samples, percentile, report, require_plot
from penstock.errors import ConfigError


def samples(count: int = 40, every_s: float = 0.1) -> Samples:
    found = Samples()
    for number in range(count):
        found.add(number * every_s, 100, 10_000, float(number))
    return found


@pytest.mark.parametrize("seconds", [0.05, 0.9, 4.0, 39.0, 7_000.0])
def test_intervals_add_up_to_the_run_and_are_few(seconds: float) -> None:
    found = samples(40, seconds / 41).intervals(seconds)
    assert 1 <= len(found) <= ROWS_MAX
    ends = [*(interval.start_s for interval in found[1:]), seconds]
    records = sum(i.records_per_second * (end - i.start_s) for i, end in zip(found, ends, strict=True))
    assert records == pytest.approx(4_000, rel=0.01)


def test_a_percentile_is_the_nearest_rank() -> None:
    assert [percentile([4, 1, 3, 2], part) for part in (1, 25, 50, 99)] == [1, 1, 2, 4]
    assert percentile([7], 50) == 7


def test_a_report_has_a_row_for_each_interval_and_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    report("run", samples(), 4.0, as_json=False, plot_path=None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t") == ["from s", "records/s", "MB/s", "ack p50 ms", "ack p99 ms"]
    assert lines[1].split("\t") == ["0", "1000", "0.1", "0.0", "1.0"]
    assert "records: 4000" in lines and "records per second: 1000" in lines and "ack ms p99: 39.0" in lines


def test_json_and_picture_show_the_same_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    report("<run>", samples(), 4.0, as_json=True, plot_path=picture)
    figures = json.loads(capsys.readouterr().out)
    assert (figures["records"], figures["ack_ms_p50"], len(figures["intervals"])) == (4_000, 19.0, 20)
    drawn = ElementTree.parse(picture).getroot()
    lines = [element for element in drawn if element.tag.endswith("polyline")]
    assert [len(line.attrib["points"].split()) for line in lines] == [20, 20]
    assert "<run>" in [element.text for element in drawn]


def test_a_picture_of_nothing_is_a_picture() -> None:
    assert ElementTree.fromstring(plot("none", [Panel("rate", [])])).tag.endswith("svg")
    assert ElementTree.fromstring(plot("zero", [Panel("rate", [(0.0, 0.0)])])).tag.endswith("svg")


@pytest.mark.parametrize(("span", "step"), [(1.0, 0.2), (9.0, 2.0), (10.0, 2.0), (24.0, 5.0), (999_999.0, 200_000.0)])
def test_steps_are_round_numbers(span: float, step: float) -> None:
    assert nice_step(span) == pytest.approx(step)


@pytest.mark.parametrize(("name", "says"), [("run.png", "ends in .svg"), ("missing/run.svg", "there is no directory")])
def test_a_picture_that_cannot_be_written_is_refused_first(tmp_path: Path, name: str, says: str) -> None:
    require_plot(None)
    require_plot(tmp_path / "run.svg")
    with pytest.raises(ConfigError, match=says):
        require_plot(tmp_path / name)
