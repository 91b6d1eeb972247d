"""Sends GitHub's public events to a topic: hours of the GH Archive, over HTTPS and without a key.

    python examples/pipelines/github_events.py --topic github --hour 2026-01-31T09:00:00Z

    https://data.gharchive.org/2026-01-31-9.json.gz      gzipped lines of JSON, one event each: 9 to 10 o'clock UTC

A real feed for the jobs of `penstock pipeline`. Needs no more than `pip install penstock`; the address and the log-in
are a client's, by `--bootstrap` and the variables `PENSTOCK_…`. A record's value is the line as it is, its key the
repository's name, its time the event's `created_at`. A line that is no such event is sent too, without a key and with
the time of its hour: the job silver sets it aside. `--max-events` bounds a run, however large an hour is. At least
once: a run that was cut off begins again, and silver drops what came twice (`id_column = "id"`). Does not try again: a
machine without the network, an hour that is not there and a download that breaks off are each a FeedUnavailableError.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPException
from io import BufferedIOBase
from itertools import islice
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from penstock import Admin, Producer
from penstock.errors import ConfigError, PenstockError

ARCHIVE = "https://data.gharchive.org"
HOURS_MAX = 24 * 31
CHUNK = 500
"""Records sent before the acks are awaited: so far partitions can be apart in the records' own time."""
LINE_BYTES_MAX = 900_000
"""A longer line is left out and counted: it would not fit into `max.message.bytes`, as it is by default."""
AGE_MAX = timedelta(days=1)
"""An event whose time is farther from its hour is sent with the hour's: a broker refuses times in the future."""


class FeedUnavailableError(PenstockError):
    """The archive did not give the hour, or not the whole of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The hours that are asked for. ConfigError for hours that the archive cannot have."""

    hour: datetime
    hours: int = 1
    url: str = ARCHIVE
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if self.hour.timestamp() % 3600:  # of UTC: some zones are half an hour apart
            raise ConfigError(f"--hour {self.hour.isoformat()} must be a full hour such as 2026-01-31T09:00:00Z")
        if not 1 <= self.hours <= HOURS_MAX:
            raise ConfigError(f"--hours {self.hours} must be from 1 to {HOURS_MAX}")
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(f"--url {self.url!r} must begin with https:// or http://")
        end = self.hour + timedelta(hours=self.hours)
        if end > datetime.now(UTC):
            raise ConfigError(
                f"--hour {self.hour.isoformat()}: the archive has hours that are over; {end.isoformat()} is not"
            )


@dataclass(frozen=True, slots=True)
class FeedRecord:
    """A line of the archive, to be sent."""

    timestamp_ms: int
    key: bytes | None
    value: bytes


def events(feed: Feed, counts: Counter[str]) -> Iterator[FeedRecord]:
    """The records of all hours; counts the hours that came whole, and the lines that are too long."""
    for number in range(feed.hours):
        hour = feed.hour.astimezone(UTC) + timedelta(hours=number)
        print(hour_url(feed.url, hour), file=sys.stderr)
        for line in download(hour_url(feed.url, hour), feed.timeout_s):
            if line is None:
                counts["too_long"] += 1
            else:
                yield event_of(line, hour)
        counts["hours"] += 1


def hour_url(archive: str, hour: datetime) -> str:
    """The archive writes hours without a leading zero."""
    return f"{archive.rstrip('/')}/{hour:%Y-%m-%d}-{hour.hour}.json.gz"


def download(url: str, timeout_s: float) -> Iterator[bytes | None]:
    """The lines as they come, None for one that is too long; FeedUnavailableError says what is wrong."""
    request = Request(url, headers={"User-Agent": "penstock"})
    try:
        with urlopen(request, timeout=timeout_s) as answer, gzip.GzipFile(fileobj=answer) as unpacked:
            yield from lines_of(unpacked)
    except HTTPError as error:
        error.close()
        missing = "; choose an hour that the archive has" if error.code == HTTPStatus.NOT_FOUND else "; try again later"
        raise FeedUnavailableError(f"{url}: the archive answers {error.code} {error.reason}{missing}") from None
    except URLError as error:
        raise FeedUnavailableError(
            f"{url}: cannot be reached ({error.reason}); check the network and https_proxy, or set --url to a mirror"
        ) from None
    except (OSError, HTTPException, EOFError, zlib.error) as error:
        raise FeedUnavailableError(f"{url}: the download broke off ({error}); run it again") from None


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


def send(producer: Producer, topic: str, feed: Feed, max_events: int) -> dict[str, int]:
    """Sends the events, every ack before the next chunk; the first failure is raised."""
    counts = Counter(events=0, not_events=0, too_long=0, hours=0)
    records = islice(events(feed, counts), max_events)
    while chunk := list(islice(records, CHUNK)):
        for future in [producer.send(topic, one.value, one.key, timestamp_ms=one.timestamp_ms) for one in chunk]:
            future.result()
        counts["events"] += len(chunk)
        counts["not_events"] += sum(one.key is None for one in chunk)
    return dict(counts)


def main(arguments: Sequence[str] | None = None) -> dict[str, int]:
    """The numbers of events, which it prints, too."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="the brokers, HOST:PORT[,…]; default: PENSTOCK_BOOTSTRAP")
    parser.add_argument("--topic", default="github")
    parser.add_argument("--hour", type=_time, required=True, help="the first hour; UTC if it has no zone")
    parser.add_argument("--hours", type=int, default=1)
    parser.add_argument("--max-events", type=int, default=100_000, help="the run ends after so many events")
    parser.add_argument("--partitions", type=int, default=6, help="of the topic, if it must be created")
    parser.add_argument("--url", default=ARCHIVE, help="the archive, or a mirror of it")
    asked = parser.parse_args(arguments)
    at = [asked.bootstrap] if asked.bootstrap else []
    feed = Feed(hour=asked.hour, hours=asked.hours, url=asked.url)
    with Admin(*at) as admin:
        if asked.topic not in admin.list_topics():
            admin.create_topic(asked.topic, asked.partitions, config={"retention.ms": -1})
    with Producer(*at) as producer:
        done = send(producer, asked.topic, feed, asked.max_events)
    print(json.dumps(done))
    return done


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


if __name__ == "__main__":
    try:
        main()
    except PenstockError as error:
        sys.exit(f"github_events: {error}")
