"""Serves a process's pages over HTTP at `metrics.listener`, in threads of its own. An edge.

`/metrics` is the registry (metrics_text.py); the other paths are the callers' (`/livez`, `/readyz`). The threads do not
need the event loop, so a scrape and a probe are answered while logs open and while the loop stands still.
"""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from broker.metrics.metrics_text import metrics_text
from penstock.errors import ConfigError
from penstock.types import Endpoint

METRICS = "/metrics"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
SILENCE_S = 10
"""A connection that sends no request for this long is closed; each one holds a thread."""
GZIP_LEVEL = 1
"""Ten times faster than gzip's own level for a text that is nearly as small."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    text: str
    content_type: str
    ok: bool = True
    """False: the status is 503."""


def process_registry() -> CollectorRegistry:
    """A registry with the process's own figures."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def serve_pages(
    endpoint: Endpoint, registry: CollectorRegistry, pages: Mapping[str, Callable[[], Page]]
) -> Callable[[], None]:
    """Answer from now on; returns a function that ends it. ConfigError if the address cannot be bound.

    `pages` are called in the threads of this server.
    """
    try:
        server = _server(endpoint)
    except OSError as error:
        raise ConfigError(
            f"metrics.listener: cannot listen on {endpoint}: {error.strerror}; choose a free port"
        ) from error
    server.set_app(_application({METRICS: lambda: _metrics_page(registry), **pages}))
    thread = threading.Thread(target=server.serve_forever, name="metrics-http", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def _metrics_page(registry: CollectorRegistry) -> Page:
    return Page(metrics_text(registry), PROMETHEUS_TEXT)


def _application(pages: Mapping[str, Callable[[], Page]]) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = pages.get(environ.get("PATH_INFO", ""))
        if asked is None:
            page, status = _not_found(pages), HTTPStatus.NOT_FOUND
        else:
            page = asked()
            status = HTTPStatus.OK if page.ok else HTTPStatus.SERVICE_UNAVAILABLE
        body, headers = page.text.encode(), [("Content-Type", page.content_type)]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            body = gzip.compress(body, GZIP_LEVEL)
            headers.append(("Content-Encoding", "gzip"))
        start_response(f"{status.value} {status.phrase}", [*headers, ("Content-Length", str(len(body)))])
        return [body]

    return answer


def _not_found(pages: Mapping[str, object]) -> Page:
    return Page(f"no such page; there are {', '.join(pages)}\n", "text/plain; charset=utf-8")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """A line for each scrape would fill the node's log."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def _server(endpoint: Endpoint) -> _Server:
    family, *_, address = socket.getaddrinfo(*endpoint, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    kind = _ServerV6 if family == socket.AF_INET6 else _Server
    return kind((str(address[0]), endpoint.port), _Handler)
