"""GitHub's public events to a topic: hours of the GH Archive (https://www.gharchive.org), over HTTPS and without a key.

    https://data.gharchive.org/2026-01-31-9.json.gz      gzipped lines of JSON, one event each: 9 to 10 o'clock UTC

A real feed for the other jobs. A record's value is the line as it is, its key the repository's name, its time the
event's `created_at`. A line that is no such event is sent too, without a key and with the time of its hour: the job
silver sets it aside. `max_events` bounds a run, however large an hour is. At least once: a run that was cut off begins
again, and silver drops what came twice (`id_column = "id"`). Needs no Spark. Does not try again: a machine without the
network, an hour that is not there and a download that breaks off are each a FeedUnavailableError.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPException
from io import BufferedIOBase
from itertools import islice
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from penstock import __version__
from penstock.client.producer.producer import Producer
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.frame.conf import DEFAULT_RUN, Duration, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.sending import chunks, make_topic, send_chunk
from penstock.spark.writing.sink_options import sink_options

ARCHIVE = "https://data.gharchive.org"
HOURS_MAX = 24 * 31
LINE_BYTES_MAX = 900_000
"""A longer line is left out and counted: it would not fit into `max.message.bytes`, as it is by default."""
AGE_MAX = timedelta(days=1)
"""An event whose time is farther from its hour is sent with the hour's: a broker refuses times in the future."""


class FeedUnavailableError(PenstockError):
    """The archive did not give the hour, or not the whole of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GithubEventsConf:
    """The keys of the job."""

    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    topic: str = conf_key("the topic to write")
    hour: datetime = conf_key("the first hour; UTC if it has no zone")
    hours: int = conf_key("the number of hours", 1, minimum=1)
    max_events: int = conf_key("the run ends after so many events", 100_000, minimum=1)
    partitions: int = conf_key("of the topic, if it must be created", 6, minimum=1)
    url: str = conf_key("the archive, or a mirror of it", ARCHIVE)
    timeout: Duration = conf_key("the archive must connect, and go on, within this time", Duration(30_000))

    def __post_init__(self) -> None:
        if self.hour.timestamp() % 3600:  # of UTC: some zones are half an hour apart
            raise ConfigError(f"hour = {self.hour.isoformat()} must be a full hour such as 2026-01-31T09:00:00Z")
        if self.hours > HOURS_MAX:
            raise ConfigError(f"hours = {self.hours} must be at most {HOURS_MAX}")
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(f"url = {self.url!r} must begin with https:// or http://")
        if not self.timeout.ms:
            raise ConfigError("timeout must be longer than 0 s")


@dataclass(frozen=True, slots=True)
class FeedRecord:
    """A line of the archive, to be sent."""

    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


def check_github_events(conf: GithubEventsConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails for hours that are not over; creates the topic if it does not exist."""
    end = conf.hour + timedelta(hours=conf.hours)
    if end > datetime.now(UTC):
        raise ConfigError(
            f"hour = {conf.hour.isoformat()}: the archive has hours that are over; {end.isoformat()} is not"
        )
    make_topic(conf.bootstrap, conf.topic, conf.partitions, run)


def run_github_events(conf: GithubEventsConf, context: JobContext) -> dict[str, Any]:
    """Sends the events; a stop ends it after the records that are under way."""
    counts: Counter[str] = Counter()
    options = sink_options({"bootstrap": conf.bootstrap, "topic": conf.topic, **context.run.client_options})
    with Producer(conf.bootstrap, **options.client) as producer:
        for chunk in chunks(islice(events(conf, context, counts), conf.max_events)):
            if context.stop.is_set():
                break
            send_chunk(producer, conf.topic, chunk)
            counts["sent"] += len(chunk)
            counts["without_key"] += sum(record.key is None for record in chunk)
    return {
        "topic": conf.topic,
        "events": counts["sent"],
        "not_events": counts["without_key"],
        "too_long": counts["too_long"],
        "hours": counts["hours"],
        "stopped": context.stop.is_set(),
    }


def events(conf: GithubEventsConf, context: JobContext, counts: Counter[str]) -> Iterator[FeedRecord]:
    """The records of all hours; counts the hours that came whole, and the lines that are too long."""
    for number in range(conf.hours):
        hour = conf.hour.astimezone(UTC) + timedelta(hours=number)
        context.say(f"github-events: {hour_url(conf.url, hour)}")
        for line in download(hour_url(conf.url, hour), conf.timeout):
            if line is None:
                counts["too_long"] += 1
            else:
                yield event_of(line, hour)
        counts["hours"] += 1


def hour_url(archive: str, hour: datetime) -> str:
    """The archive writes hours without a leading zero."""
    return f"{archive.rstrip('/')}/{hour:%Y-%m-%d}-{hour.hour}.json.gz"


def download(url: str, timeout: Duration) -> Iterator[bytes | None]:
    """The lines as they come, None for one that is too long; FeedUnavailableError says what is wrong."""
    request = Request(url, headers={"User-Agent": f"penstock/{__version__}"})
    try:
        with urlopen(request, timeout=timeout.seconds) as answer, gzip.GzipFile(fileobj=answer) as unpacked:
            yield from lines_of(unpacked)
    except HTTPError as error:
        error.close()
        missing = "; choose an hour that the archive has" if error.code == HTTPStatus.NOT_FOUND else "; try again later"
        raise FeedUnavailableError(f"{url}: the archive answers {error.code} {error.reason}{missing}") from None
    except URLError as error:
        raise FeedUnavailableError(
            f"{url}: cannot be reached ({error.reason}); check the network and https_proxy, or set url to a mirror"
        ) from None
    except (OSError, HTTPException, EOFError, zlib.error) as error:
        raise FeedUnavailableError(f"{url}: the download broke off ({error}); run the job again") from None


def lines_of(unpacked: BufferedIOBase) -> Iterator[bytes | None]:
    """Lines without their ends; None for one that is too long."""
    within = False
    while piece := unpacked.readline(LINE_BYTES_MAX):
        whole = piece.endswith(b"\n")
        if not within:
            yield piece.rstrip(b"\r\n") if whole or len(piece) < LINE_BYTES_MAX else None
        within = not whole


def event_of(line: bytes, hour: datetime) -> FeedRecord:
    """A record of the line; without a key if it is not an event of this hour."""
    try:
        event = json.loads(line)
        key, time = event["repo"]["name"].encode(), datetime.fromisoformat(event["created_at"])
        if abs(time - hour) <= AGE_MAX:
            return FeedRecord(_ms(time), key, line)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    return FeedRecord(_ms(hour), None, line)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
