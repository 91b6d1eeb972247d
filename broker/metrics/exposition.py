"""Answers scrapes over HTTP, in a thread of its own, with the process's own figures beside the node's. An edge."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.process_collector import ProcessCollector

from penstock.errors import ConfigError
from penstock.types import Endpoint


def serve_metrics(endpoint: Endpoint, registry: CollectorRegistry) -> Callable[[], None]:
    """Answer scrapes from now on; returns a function that ends it. ConfigError if the address cannot be bound."""
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(endpoint.port, addr=endpoint.host, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"metrics.listener: cannot listen on {endpoint}: {error.strerror}; choose a free port"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
