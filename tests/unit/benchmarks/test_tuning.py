"""The stories of benchmarks/tuning.py: keys that exist, from starved to the defaults, and a page of the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tuning import FLUSH, KEYS, STARVED, STORIES, Step, print_table
from broker.config.config import parse_config
from broker.config.keys.config_table import KEYS as KNOWN

ROOT = Path(__file__).resolve().parents[3]
NODE = {
    "node.id": 1,
    "process.roles": "broker",
    "listeners": "BROKER://h:1,INTERNAL://h:2",
    "controller.quorum.voters": "2@h:3",
    "log.dirs": "/d",
}
OUTCOME: dict[str, Any] = {
    "acks_one_per_s": 3,
    "acks_all_per_s": 2,
    "ack_ms": 1.5,
    "handler_idle": 0.25,
    "network_idle": 0.5,
    "isr_shrinks": 1,
    "isr_expands": 1,
}


@pytest.mark.parametrize("story", STORIES)
def test_every_step_is_a_configuration_that_a_node_takes(story: str) -> None:
    config: dict[str, object] = {}
    for step in STORIES[story]:
        config |= step.config
        taken = parse_config({**NODE, **config})

        assert {name: getattr(taken, name.replace(".", "_")) for name in config} == config


def test_the_tuning_ends_at_the_defaults_and_one_fetcher_more() -> None:
    last: dict[str, object] = {}
    for step in KEYS:
        last |= step.config
    defaults = {name: key.default for name, key in KNOWN.items()}

    assert last == {**{name: defaults[name] for name in STARVED}, "num.replica.fetchers": 2}


def test_a_table_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"row": "a", "number": 1234567, "share": 0.25, "ms": 12.34}])

    assert capsys.readouterr().out.splitlines()[1:] == [
        "| row | number | share | ms |",
        "| --- | --- | --- | --- |",
        "| a | 1,234,567 | 0.25 | 12.3 |",
    ]


def test_a_picture_has_every_row_and_the_same_rows_have_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra plots)")
    from benchmarks.tuning_plots import draw

    rows = [{"row": name} | OUTCOME for name in ("starved", "num.io.threads = 8")]
    (first,), (second,) = draw("keys", rows, tmp_path / "a"), draw("keys", rows, tmp_path / "b")

    assert all(row["row"] in first.read_text() for row in rows)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("steps", [KEYS, FLUSH])
def test_the_page_has_the_rows_of_the_story(steps: tuple[Step, ...]) -> None:
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")

    assert [step.name for step in steps if f"| {step.name} |" not in page] == []


def test_the_pages_pictures_are_there() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8"))

    assert len(pictures) == len(STORIES) + 1
    assert [name for name in pictures if not (ROOT / "docs" / name).is_file()] == []
