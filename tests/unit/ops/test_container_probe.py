"""The probe of a container: ready or not by its exit code, with the first condition that does not hold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ops.container.probe import loopback_of, main, protocols

MISSING = '{"check": "in-service", "ok": false, "missing": "the node stops"}'


@contextmanager
def node(status: int, body: str) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The variables of a node whose pages answer so, and the paths that were asked for."""
    asked: list[str] = []

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield {"PENSTOCK_METRICS_LISTENER": f"0.0.0.0:{server.server_port}"}, asked
        finally:
            server.shutdown()
            thread.join()


def test_a_ready_node_is_ready_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    with node(200, '{"check": "logs", "ok": true}\n') as (environ, asked):
        assert main([], environ) == 0 and main(["livez"], environ) == 0
    assert asked == ["/readyz", "/livez"] and capsys.readouterr().out == ""


def test_a_node_that_is_not_ready_is_said_to_lack_what_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    with node(503, '{"check": "logs", "ok": true}\n' + MISSING + "\n") as (environ, _):
        assert main([], environ) == 1
    assert capsys.readouterr().out == MISSING + "\n"


def test_another_answer_is_shown_by_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    with node(404, "no such page\n") as (environ, _):
        assert main(["other"], environ) == 1
    assert "404 Not Found" in capsys.readouterr().out


@pytest.mark.parametrize("listener", ["127.0.0.1:1", "127.0.0.1:none", "nonsense"])
def test_a_node_that_does_not_answer_is_not_ready(listener: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {"PENSTOCK_METRICS_LISTENER": listener}) == 1
    assert capsys.readouterr().out.startswith("no answer from")


def test_every_address_is_asked_at_its_loopback() -> None:
    assert [loopback_of(host) for host in ("0.0.0.0", "[::]", "", "[fd00::1]", "10.0.0.1")] == [
        *("127.0.0.1", "::1", "127.0.0.1"),
        *("fd00::1", "10.0.0.1"),
    ]


def test_tls_is_by_the_map_of_the_node() -> None:
    assert "METRICS:SSL" in protocols({"PENSTOCK_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:SASL_SSL, METRICS:SSL"})
    assert "METRICS:SSL" not in protocols({})
