"""Confs of the jobs over one click-stream, and what reads their results back."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.consumer_record import ConsumerRecord
from tests.support.decided import wait_topic_decided

SEED = 7
CONFS = {
    "bronze": 'topic = "{topic}"\noutput = "{lake}/bronze"\nmax_offsets_per_trigger = {batch}\n',
    "silver": """input = "{lake}/bronze"
output = "{lake}/silver"
dead_letter_topic = "{topic}-dead"
id_column = "event_id"
time_column = "event_time"
required = ["user", "page", "action"]
watermark = "20 m"
[columns]
event_id = "string"
event_time = "timestamp"
user = "string"
session = "string"
page = "string"
action = "string"
amount_cents = "bigint"
referrer = "string"
""",
    "gold": """input = "{lake}/silver"
topic = "{topic}-gold"
checkpoint = "{lake}/gold-checkpoint"
time_column = "event_time"
window = "5 m"
watermark = "20 m"
group_by = ["page"]
[measures]
views = "count_if(action = 'view')"
orders = "count_if(action = 'order')"
revenue_cents = "coalesce(sum(amount_cents), 0)"
""",
}
LEAST = "gold-at-least-once"
"""Gold into a topic of its own, with duplicates by choice."""
CONFS[LEAST] = CONFS["gold"].replace("gold", LEAST).replace("[measures]", 'semantics = "at-least-once"\n[measures]')


def clicks_arguments(lake: Path, bootstrap: str, topic: str, *, events: int, seed: int = SEED) -> list[str]:
    """The arguments of `examples/pipelines/clicks.py`; `LAKE/answers.json` has its answers."""
    named = {"bootstrap": bootstrap, "topic": topic, "seed": seed, "events": events, "answers": lake / "answers.json"}
    return [f"--{name}={value}" for name, value in named.items()]


def write_confs(lake: Path, bootstrap: str, topic: str, *, batch: int = 0) -> None:
    """`LAKE/JOB.toml` for each job."""
    for job, text in CONFS.items():
        filled = text.format(topic=topic, lake=lake, batch=batch)
        (lake / f"{job}.toml").write_text(f'bootstrap = "{bootstrap}"\n{filled}[run]\nquick = true\n')


def answers(lake: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lake / "answers.json").read_text())
    return found


def read_topic(bootstrap: str, topic: str, isolation_level: str = "read_committed") -> list[ConsumerRecord]:
    """Everything that is there now, once nothing is open any more."""
    wait_topic_decided(bootstrap, topic)
    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[ConsumerRecord] = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            found += consumer.poll(timeout_ms=500)
    return found


def windows_of(records: list[ConsumerRecord]) -> dict[tuple[int, str], dict[str, int]]:
    """By window and page, the last value of each key; it must be the value of each that was written."""
    values: dict[bytes, set[bytes]] = {}
    for record in records:
        assert record.key is not None and record.value is not None
        values.setdefault(record.key, set()).add(record.value)
    assert all(len(different) == 1 for different in values.values()), "a window was written with two values"
    found = {}
    for (value,) in values.values():
        row = json.loads(value)
        start_ms = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
        found[start_ms, row["page"]] = {name: row[name] for name in ("views", "orders", "revenue_cents")}
    return found


def wanted_windows(lake: Path) -> dict[tuple[int, str], dict[str, int]]:
    names = ("views", "orders", "revenue_cents")
    return {(w["window_start_ms"], w["page"]): {name: w[name] for name in names} for w in answers(lake)["windows"]}
