"""The parts of a node that the rest of its broker stands on.

Made by the node, for every room alike. Not here: what one room has of another one, which its maker is given by name.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.load.busy_time import BusyTimes
from broker.node.environment import Environment
from broker.node.node_failures import NodeFailures
from broker.node.parts.quorum import QuorumParts
from metadata.image import MetadataImage
from penstock.lazy_dataclass import dataclass
from storage.log_dirs.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The configuration, the machine, the quorum's part of the node, its logs, and its failures."""

    config: NodeConfig
    environment: Environment
    quorum: QuorumParts
    log_manager: LogManager
    dynamic: DynamicBrokerConfig
    busy: BusyTimes
    failures: NodeFailures

    @property
    def on_fatal(self) -> Callable[[BaseException], None]:
        """Ends the node."""
        return self.failures.on_fatal

    def image(self) -> MetadataImage:
        """The newest metadata of this node."""
        return self.quorum.loader.image
