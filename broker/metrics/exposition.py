"""Serves a process's pages over HTTP at `metrics.listener`, in threads of its own. An edge.

`/metrics` is the registry (metrics_text.py); the other paths are the callers' (`/livez`, `/readyz`). The threads do not
need the event loop, so a scrape and a probe are answered while logs open and while the loop stands still. TLS, where
the listener has it, is a matter of the connection's thread, too: who is slow with the handshake holds up nobody else.
"""

from __future__ import annotations

import gzip
import logging
import math
import socket
import threading
import time
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
from broker.tls.ssl_contexts import ServerContexts, why_not
from penstock.errors import ConfigError
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

METRICS = "/metrics"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
SILENCE_S = 10
"""A connection that sends no request for this long is closed; each one holds a thread."""
TOLD_EVERY_S = 60
"""How often at most a line of the log says that TLS has failed."""
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
    endpoint: Endpoint,
    registry: CollectorRegistry,
    pages: Mapping[str, Callable[[], Page]],
    contexts: ServerContexts | None = None,
) -> Callable[[], None]:
    """Answer from now on; returns a function that ends it. ConfigError if the address cannot be bound.

    `pages` are called in the threads of this server. `contexts` are those of a listener with TLS.
    """
    try:
        server = _server(endpoint, contexts)
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
    contexts: ServerContexts | None = None
    _told_at = -math.inf

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.contexts is None:
            return super().finish_request(request, client_address)
        request.settimeout(SILENCE_S)
        try:
            secured = self.contexts.current().wrap_socket(request, server_side=True)
        except (OSError, ValueError) as error:  # ValueError: a client that has left before
            return self._tell(why_not(error), client_address)
        with secured:
            super().finish_request(secured, client_address)

    def _tell(self, why: str, client_address: Any) -> None:
        """A Prometheus that is set up wrong should find the reason; a stranger should not fill the log."""
        if time.monotonic() - self._told_at >= TOLD_EVERY_S:
            self._told_at = time.monotonic()
            _log.warning("metrics.listener: no TLS with %s: %s", client_address[0], why)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """A line for each scrape would fill the node's log."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def _server(endpoint: Endpoint, contexts: ServerContexts | None) -> _Server:
    family, *_, address = socket.getaddrinfo(*endpoint, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    kind = _ServerV6 if family == socket.AF_INET6 else _Server
    server = kind((str(address[0]), endpoint.port), _Handler)
    server.contexts = contexts
    return server
