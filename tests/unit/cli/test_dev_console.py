"""The console beside `penstock dev`: it answers while the context lasts, also where the usual port is taken."""

from __future__ import annotations

import socket
from typing import Any, cast

import httpx
import pytest

from penstock.cli.dev_console import dev_console


class FakeCluster:
    bootstrap = "127.0.0.1:1"
    client_options: dict[str, str] = {}  # noqa: RUF012


def test_it_is_another_port_where_the_usual_one_is_taken_and_ends_with_the_context() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with dev_console(cast("Any", FakeCluster()), port) as url:
            assert not url.endswith(f":{port}")
            assert httpx.get(f"{url}/static/console.css", timeout=30).status_code == 200
            assert httpx.get(f"{url}/create-topic", timeout=30).status_code == 503  # allowed, and the cluster is away
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, timeout=5)
