"""Clicks: sends a seeded click-stream to a topic, and writes the answers that a pipeline over it must find.

Needs no Spark. A topic that does not exist is created with `retention.ms=-1`, because the events are older than any
usual retention. `answers` is a JSON file: the number of records of each kind and the windows that are final.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.client.producer.producer import Producer
from penstock.pipelines.clickstream.answers import Answers
from penstock.pipelines.clickstream.events import ClickStream
from penstock.pipelines.frame.conf import DEFAULT_RUN, Duration, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.sending import chunks, make_topic, send_chunk
from penstock.spark.writing.sink_options import sink_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ClicksConf:
    """The keys of the job."""

    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    topic: str = conf_key("the topic to write")
    seed: int = conf_key("equal seeds give equal records", 1)
    events: int = conf_key("the number of events; duplicates and tombstones come on top", 10_000, minimum=1)
    events_per_second: int = conf_key("the speed; 0: as fast as it goes", 0, minimum=0)
    partitions: int = conf_key("of the topic, if it must be created", 6, minimum=1)
    answers: str = conf_key("a file for the answers, as JSON; none if not given", "")
    window: Duration = conf_key("the windows of the answers", Duration(5 * 60_000))
    watermark: Duration = conf_key(
        "a window is in the answers if it ends this long before the last event", Duration(20 * 60_000)
    )


def check_clicks(conf: ClicksConf, run: RunConf = DEFAULT_RUN) -> None:
    """Creates the topic if it does not exist."""
    make_topic(conf.bootstrap, conf.topic, conf.partitions, run)


def run_clicks(conf: ClicksConf, context: JobContext) -> dict[str, Any]:
    """Sends everything; a stop ends it after the records that are under way, without answers."""
    stream = ClickStream(conf.seed, conf.events)
    answers = Answers(conf.window.ms)
    pace = _Pace(conf.events_per_second, time.monotonic, context.pause)
    options = sink_options({"bootstrap": conf.bootstrap, "topic": conf.topic, **context.run.client_options})
    with Producer(conf.bootstrap, **options.client) as producer:
        for chunk in chunks(stream.records()):
            if context.stop.is_set():
                break
            send_chunk(producer, conf.topic, chunk)
            for record in chunk:
                answers.take(record)
            pace.wait_after(len(chunk))
    stopped = context.stop.is_set()
    if conf.answers and not stopped:
        _write(Path(conf.answers).absolute(), answers, conf.watermark.ms)
    kinds = {kind.value: count for kind, count in sorted(answers.kinds.items(), key=lambda item: item[0].value)}
    return {"topic": conf.topic, "records": answers.records, **kinds, "stopped": stopped}


def answers_json(answers: Answers, watermark_ms: int) -> dict[str, Any]:
    """The content of the answers' file."""
    final = sorted(answers.final_windows(watermark_ms).items())
    return {
        "records": answers.records,
        "kinds": {kind.value: count for kind, count in answers.kinds.items()},
        "windows": [{"window_start_ms": start, "page": page, **asdict(window)} for (start, page), window in final],
    }


def _write(path: Path, answers: Answers, watermark_ms: int) -> None:
    waiting = path.with_name(path.name + ".tmp")
    waiting.write_text(json.dumps(answers_json(answers, watermark_ms), indent=1), encoding="utf-8")
    os.replace(waiting, path)


class _Pace:
    """Waits so long that no more than `per_second` records leave in a second."""

    def __init__(self, per_second: int, now: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._per_second = per_second
        self._now = now
        self._wait = wait
        self._began = now()
        self._sent = 0

    def wait_after(self, count: int) -> None:
        self._sent += count
        if self._per_second:
            self._wait(max(0.0, self._began + self._sent / self._per_second - self._now()))
