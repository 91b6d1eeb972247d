"""The page's table of clients is what the file of results has, and a run replaces that of the same version."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tests.interop.matrix.results import BEGIN, END, PAGE, Result, keep, load, table
from tests.interop.matrix.table import Outcome

DAY, NEXT = date(2026, 1, 2), date(2026, 1, 3)


def outcome(client: str, feature: str, state: str, version: str = "1.0") -> Outcome:
    return Outcome(client, feature, state, version=version)


def test_the_page_has_the_table_of_the_results() -> None:
    _, mark, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert mark and rest.partition(END)[0] == table(load()), "python -m tests.interop.matrix --table"


def test_a_run_counts_its_features_and_a_newer_one_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    keep("penstock", [outcome("sarama@1.0", "tail", "fails"), outcome("sarama@1.0", "seek", "ok")], DAY, path)
    assert load(path) == [Result("sarama", "1.0", "penstock", "2026-01-02", 1, ["tail"], [])]
    keep("penstock", [outcome("sarama", "tail", "ok"), outcome("sarama", "seek", "not offered")], NEXT, path)
    assert load(path) == [Result("sarama", "1.0", "penstock", "2026-01-03", 1, [], ["seek"])]


def test_a_client_that_could_not_be_had_is_not_kept(tmp_path: Path) -> None:
    keep("penstock", [outcome("sarama", "", "missing")], DAY, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == []


def test_versions_are_in_the_order_of_their_numbers() -> None:
    found = [
        Result("kcat", version, "penstock", "2026-01-02", 1, [], []) for version in ("1.10.0", "1.9.2", "2.0.1 (x)")
    ]
    lines = table(found).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["1.9.2", "1.10.0", "2.0.1 (x)"]


def test_a_failure_says_how_it_went_with_apache_kafka() -> None:
    ours = Result("kcat", "1.0", "penstock", "2026-01-02", 1, ["seek", "tail"], [])
    theirs = Result("kcat", "1.0", "kafka", "2026-01-02", 2, ["seek"], [])
    text = table([theirs, ours])
    assert "kcat 1.0, `seek`: the cause is not known. The same fails with Apache Kafka." in text
    assert "kcat 1.0, `tail`: the cause is not known. It passes with Apache Kafka." in text
