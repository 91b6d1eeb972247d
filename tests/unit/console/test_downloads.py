"""A download is bytes for a file, whatever a record has in it and its topic is called."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.clock import ManualClock
from penstock.console import downloads
from penstock.console.app import create_app
from penstock.console.cluster_link import ClusterLink
from penstock.console.page import PageAsked
from penstock.console.settings import ConsoleSettings


class OpenLink(ClusterLink):
    async def reach(self) -> None:
        """The cluster takes anybody."""


def downloaded(monkeypatch: pytest.MonkeyPatch, query: str, value: bytes | None) -> httpx.Response:
    async def read_record(asked: PageAsked) -> ConsumerRecord:
        return ConsumerRecord('a"\r\nx', 1, 7, 0, 0, b"<script>", value, ())

    async def ask() -> httpx.Response:
        app = create_app(
            ConsoleSettings(bootstrap="a:1", origins=("http://127.0.0.1:1",)), make_link=OpenLink, clock=ManualClock()
        )
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            return await client.get(f"/download?{query}")

    monkeypatch.setattr(downloads, "read_record", read_record)
    return asyncio.run(ask())


def test_bytes_are_a_file_with_a_harmless_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = downloaded(monkeypatch, "topic=a&partition=1&offset=7&part=key", None)
    assert (answer.status_code, answer.content) == (200, b"<script>")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="a___x-1-7.key"'
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_null_value_and_an_unknown_part_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert downloaded(monkeypatch, "topic=a&partition=1&offset=7", None).status_code == 400
    assert downloaded(monkeypatch, "topic=a&partition=1&offset=7&part=headers", b"v").status_code == 400
