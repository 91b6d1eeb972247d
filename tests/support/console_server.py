"""A console that serves in a thread of the test, watching its cluster in short steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.clock import Clock
from penstock.console.app import create_app
from penstock.console.cluster_link import ClusterLink
from penstock.console.live import moving_routes
from penstock.console.serving import ServingThread, listen
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.last_hour import HourLimits

HOST = "127.0.0.1"
STEP_MS = 500


@contextmanager
def serving_console(
    bootstrap: str,
    *,
    step_ms: int = STEP_MS,
    make_admin: Callable[..., Any] | None = None,
    make_link: Callable[[str, Any, Clock], ClusterLink] = ClusterLink,
    **settings: Any,
) -> Iterator[str]:
    """The address of the console, which ends with the `with`."""
    with listen(HOST, 0) as listening:
        url = f"http://{HOST}:{listening.getsockname()[1]}"
        wanted = ConsoleSettings(bootstrap=bootstrap, origins=(url,), **settings)
        limits = HourLimits(step_ms=step_ms)
        watch = (
            ClusterWatch(wanted, limits=limits)
            if make_admin is None
            else ClusterWatch(wanted, limits=limits, make_admin=make_admin)
        )
        app = create_app(wanted, watch=watch, more=moving_routes, make_link=make_link)
        with ServingThread(app, listening):
            yield url
