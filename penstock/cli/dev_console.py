"""The console of `penstock dev --console`: in a thread beside the nodes, on loopback, and its changes are allowed.

It is for the person at this machine, who may do everything to these nodes anyway. The port is the usual one, or a free
one where that is taken. Not here: the console (penstock/console/).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.web_console import origins_of
from penstock.console.settings import DEFAULT_CONSOLE_HOST, DEFAULT_CONSOLE_PORT, ConsoleSettings
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.testing import Cluster


@contextmanager
def dev_console(cluster: Cluster, port: int = DEFAULT_CONSOLE_PORT) -> Iterator[str]:
    """The address of a console for the cluster, which lasts as long as the context."""
    from penstock.console.app import create_app
    from penstock.console.live import moving_routes
    from penstock.console.serving import ServingThread, listen
    from penstock.console.watching.cluster_watch import ClusterWatch

    try:
        listening = listen(DEFAULT_CONSOLE_HOST, port)
    except PenstockError:
        listening = listen(DEFAULT_CONSOLE_HOST, 0)
    with listening:
        origins = origins_of(DEFAULT_CONSOLE_HOST, listening.getsockname()[1], is_tls=False)
        options = dict(cluster.client_options)
        settings = ConsoleSettings(
            bootstrap=cluster.bootstrap,
            origins=origins,
            connection={name: value for name, value in options.items() if name == "tls_ca"},
            own_login={name: value for name, value in options.items() if name != "tls_ca"},
            allow_changes=True,
        )
        app = create_app(settings, watch=ClusterWatch(settings), more=moving_routes)
        with ServingThread(app, listening):
            yield origins[0]
