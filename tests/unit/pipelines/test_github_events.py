"""Promises about the example github_events: what a line of the archive becomes, and what a download that fails says."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from examples.pipelines.github_events import (
    LINE_BYTES_MAX,
    Feed,
    FeedRecord,
    FeedUnavailableError,
    download,
    event_of,
    hour_url,
    lines_of,
)
from penstock.errors import ConfigError
from tests.support.github_archive import archive_events, archive_server, zipped

HOUR = datetime(2026, 1, 31, 9, tzinfo=UTC)
HOUR_MS = 1769850000_000
SOON_S = 5.0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"hour": HOUR.replace(minute=5)}, "--hour 2026-01-31T09:05:00+00:00 must be a full hour such as 2026-01-31T"),
        (
            {"hour": HOUR.replace(tzinfo=timezone(timedelta(hours=5, minutes=30)))},
            "--hour 2026-01-31T09:00:00+05:30 must be a",
        ),
        ({"hours": 745}, "--hours 745 must be from 1 to 744"),
        ({"url": "file:///etc"}, "--url 'file:///etc' must begin with https:// or http://"),
    ],
)
def test_hours_that_no_archive_has_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Feed(**{"hour": HOUR, **more})
    assert str(caught.value).startswith(message)


def test_an_hour_that_is_not_over_is_refused() -> None:
    with pytest.raises(ConfigError, match="the archive has hours that are over; 2999-01-01T01:00:00"):
        Feed(hour=datetime(2999, 1, 1, tzinfo=UTC))


def test_the_hour_of_a_file_has_no_leading_zero() -> None:
    assert hour_url("https://data.gharchive.org/", HOUR) == "https://data.gharchive.org/2026-01-31-9.json.gz"


def test_an_event_has_its_repository_as_key_and_its_own_time() -> None:
    line = b'{"id": "1", "repo": {"name": "a/b"}, "created_at": "2026-01-31T09:00:07Z"}'
    assert event_of(line, HOUR) == FeedRecord(HOUR_MS + 7_000, b"a/b", line)


@pytest.mark.parametrize(
    "line",
    [
        b"{cut",
        b"[]",
        b'"text"',
        b"[" * 100_000,
        b'{"repo": {"name": "a/b"}}',
        b'{"repo": {"name": 7}, "created_at": "2026-01-31T09:00:07Z"}',
        b'{"repo": null, "created_at": "2026-01-31T09:00:07Z"}',
        b'{"repo": {"name": "a/b"}, "created_at": "yesterday"}',
        b'{"repo": {"name": "a/b"}, "created_at": "2026-01-31T09:00:07"}',
        b'{"repo": {"name": "a/b"}, "created_at": "2999-01-31T09:00:07Z"}',
        b'{"repo": {"name": "\\ud800"}, "created_at": "2026-01-31T09:00:07Z"}',
        b"\xff",
    ],
)
def test_a_line_that_is_no_event_is_sent_without_a_key_at_its_hour(line: bytes) -> None:
    assert event_of(line, HOUR) == FeedRecord(HOUR_MS, None, line)


def test_a_line_that_is_too_long_is_left_out_whole() -> None:
    longest, too_long = b"a" * (LINE_BYTES_MAX - 1), b"b" * (3 * LINE_BYTES_MAX)
    lines = lines_of(io.BytesIO(b"\n".join([longest, too_long, b"c\r", b"", b"last"])))
    assert list(lines) == [longest, None, b"c", b"", b"last"]


def test_a_download_has_every_line_or_says_what_is_wrong() -> None:
    lines = archive_events(1, HOUR, 500)
    whole = zipped(lines)
    files = {"whole": whole, "cut": whole[: len(whole) // 2], "not-gzip": b"<html>", "rotten": whole[:-8] + bytes(8)}
    with archive_server(files) as url:
        assert list(download(f"{url}/whole", SOON_S)) == lines
        with pytest.raises(FeedUnavailableError, match=r"/gone: the archive answers 404 .*; choose an hour that the"):
            list(download(f"{url}/gone", SOON_S))
        for name in ("cut", "not-gzip", "rotten"):
            with pytest.raises(FeedUnavailableError, match=rf"/{name}: the download broke off \(.*\); run it again"):
                list(download(f"{url}/{name}", SOON_S))
    with pytest.raises(
        FeedUnavailableError, match=r"cannot be reached \(.*refused\); check the network and https_proxy"
    ):
        list(download(f"{url}/whole", SOON_S))
