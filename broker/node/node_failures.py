"""Decides what a failure means for the whole node: a log dir that is lost, an error that no part can live with.

Made before every other part, which report to it. Not here: what a failed log dir means for replicas
(`broker/replication/disk_failures.py`), and the stop, which the process orders when `fatal` is set (server.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from broker.config.node_config import NodeConfig
from penstock.errors import MetaPropertiesError
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)


class NodeFailures:
    """Decides about the failures of a node. There is one per node, on the event loop."""

    def __init__(self, config: NodeConfig, log_manager: LogManager) -> None:
        self._config, self._log_manager = config, log_manager
        self.fatal: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """The first error that ends the node."""
        self.failed_log_dirs: dict[str, Exception] = {}
        """The log dirs that failed since the start, each with its error."""

    def on_fatal(self, error: BaseException) -> None:
        if not self.fatal.done():
            if not isinstance(error, MetaPropertiesError):
                _log.critical("fatal: %s: %s", type(error).__name__, error, exc_info=error)
            self.fatal.set_result(error)

    @property
    def refusal(self) -> MetaPropertiesError | None:
        """The error for which this node may not be part of the cluster, as it was told after its start; it then stops
        in order."""
        error = self.fatal.result() if self.fatal.done() else None
        return error if isinstance(error, MetaPropertiesError) else None

    def directory_failed(self, directory: str, error: Exception) -> None:
        """A failed log dir takes its replicas; the node lives on, unless the metadata log is in it."""
        self.failed_log_dirs[directory] = error
        config = self._config
        if len(self.failed_log_dirs) == len(config.log_dirs) or directory == config.metadata_log_dir:
            self.on_fatal(error)

    def offline_log_dirs(self) -> Mapping[str, Exception]:
        """The log dirs that are offline, also those that were so at the start, with their errors."""
        return {**self._log_manager.offline_log_dirs, **self.failed_log_dirs}

    def __repr__(self) -> str:
        return f"NodeFailures({', '.join(sorted(self.failed_log_dirs)) or 'no log dir'} failed)"
