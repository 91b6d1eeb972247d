"""The pages for operators at `metrics.listener`: `/metrics`, `/livez`, `/readyz`, `/syncz`.

They are there from before the logs open until the process ends. Each but `/metrics` answers 200 or 503 and one line of
JSON for each condition. `/livez`: is a restart of no use? It fails only when the event loop has stood still for
`STILL_MS_MAX`. `/readyz`: what does this node lack before it may serve? `/syncz`: and before another node may stop
(sync_checks.py)?

A broker is ready while the controller lets it serve (the same as SERVING of gRPC's health service, and as READY=1 to
systemd at a start). A node that is only a controller is ready while the quorum has a leader. The other lines say how
far a node is on its way there, so the first one that is not ok names the cause.

Not here: HTTP (`metrics/exposition.py`); the node's own metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from broker.config.config_digest import settings_digest
from broker.config.keys.security_keys import METRICS_LISTENER
from broker.config.node_config import NodeConfig
from broker.metrics.exposition import process_registry, serve_pages
from broker.metrics.metrics import Reading, Readings
from broker.metrics.page_server import Page
from broker.node.node import Node
from broker.node.sync_checks import replicas_missing, vote_missing
from broker.tls.material import Certificates
from broker.tls.ssl_contexts import ServerContexts
from metadata.image import MetadataImage
from metadata.listeners import CONTROLLER_LISTENER
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH
from raft.voters import VoterSet
from storage.log_dirs.log_manager_config import LoadProgress

NDJSON = "application/x-ndjson"
STILL_MS_MAX = 10_000
"""Nothing that a node does on its event loop takes this long. systemd's watchdog allows 30 s."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition; `missing` is "" where it holds."""

    name: str
    missing: str = ""

    @property
    def ok(self) -> bool:
        return not self.missing

    def line(self) -> str:
        """The check as JSON, in one line."""
        found: dict[str, object] = {"check": self.name, "ok": self.ok}
        return json.dumps({**found, "missing": self.missing} if self.missing else found)


class BrokerStatus(Protocol):
    """How a broker stands with the controller."""

    @property
    def is_fenced(self) -> bool: ...

    @property
    def broker_epoch(self) -> int: ...


def checks(
    config: NodeConfig, voters: VoterSet, leader_id: int, metadata_offset: int, status: BrokerStatus | None
) -> list[Check]:
    """The checks of a node whose logs are open. `voters` are the present ones; `status` is None without the broker
    role."""
    if status is None:
        return [Check("logs"), Check("quorum", "" if leader_id >= 0 else _no_leader(config, voters))]
    if not status.is_fenced:
        # An election of a moment ago does not keep a broker from serving; a longer one fences it.
        return [Check("logs"), Check("registration"), Check("metadata"), Check("in-service")]
    return [
        Check("logs"),
        Check("quorum", "" if leader_id >= 0 else _no_leader(config, voters)),
        Check("registration", _not_registered(config) if status.broker_epoch == NO_EPOCH else ""),
        Check("metadata", _metadata_behind(metadata_offset, status.broker_epoch)),
        Check("in-service", "the controller does not let this broker serve (it is fenced)"),
    ]


def _no_leader(config: NodeConfig, voters: VoterSet) -> str:
    if not voters:
        servers = ", ".join(map(str, config.controller_quorum_bootstrap_servers))
        return f"no bootstrap server has told this node who leads the quorum; one of these must run: {servers}"
    return (
        f"the quorum has no leader that this node knows; {voters.majority} of these must run and reach each other: "
        f"{voters.listed(CONTROLLER_LISTENER)}"
    )


def _not_registered(config: NodeConfig) -> str:
    return f"no controller has registered broker {config.node_id} yet; the node's log says why"


def _metadata_behind(offset: int, broker_epoch: int) -> str:
    return (
        "" if offset >= broker_epoch else f"the metadata is read up to {offset}, the registration is at {broker_epoch}"
    )


class OperatorPages:
    """Made at the start of the process. The pages are read in other threads than the one that calls these methods."""

    def __init__(self, config: NodeConfig, version: str, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._version = version
        self._digest = settings_digest(config)
        self._now_ms = now_ms
        self._opening = {log_dir: LoadProgress(log_dir, 0, 0, 0, was_clean=True) for log_dir in config.log_dirs}
        self._node: Node | None = None
        self._beat_ms: int | None = None
        self._stops = False
        self._seen: tuple[MetadataImage | None, str] = (None, "")
        self.registry = process_registry()
        self.registry.register(Readings(self._readings))

    def serve(self, certificates: Certificates) -> Callable[[], None]:
        """Answer at `metrics.listener` from now on, if there is one, over TLS if it has that; returns a function that
        ends it."""
        endpoint = self._config.metrics_listener
        if endpoint is None:
            return lambda: None
        own = certificates.of(METRICS_LISTENER)
        contexts = None if own is None else ServerContexts(own)
        pages = {"/livez": self.live, "/readyz": self.ready, "/syncz": self.in_sync}
        return serve_pages(endpoint, self.registry, pages, contexts)

    # -- what the process tells ----------------------------------------------------------------------------------------

    def opening(self, progress: LoadProgress) -> None:
        """The logs of one log dir are open so far; called in any thread."""
        self._opening[progress.log_dir] = progress

    def runs(self, node: Node) -> None:
        """The logs are open, and there is a node."""
        self._node = node
        self.registry.register(_Included(node.metrics.registry))
        self.beat()

    def beat(self) -> None:
        """The event loop has turned."""
        self._beat_ms = self._now_ms()

    def stops(self) -> None:
        """The node was told to stop. Its stop has limits of its own, so the loop is not watched any more."""
        self._stops = True

    # -- the pages -----------------------------------------------------------------------------------------------------

    def live(self) -> Page:
        """`/livez`."""
        still_ms = 0 if self._beat_ms is None or self._stops else self._now_ms() - self._beat_ms
        missing = f"the event loop has stood still for {still_ms / 1000:.0f} s" if still_ms > STILL_MS_MAX else ""
        return _page([Check("event-loop", missing)])

    def ready(self) -> Page:
        """`/readyz`."""
        return _page(self._checks())

    def in_sync(self) -> Page:
        """`/syncz`."""
        return _page([*self._checks(), *self._sync_checks()])

    def first_missing(self) -> str:
        """The first condition of `/readyz` that does not hold, which names the cause; "" when all hold."""
        return next((check.missing for check in self._checks() if not check.ok), "")

    def _checks(self) -> list[Check]:
        node = self._node
        if self._stops:
            return [Check("in-service", "the node stops")]
        if node is None:
            return [Check("logs", self._logs_to_open() or "the log dirs are being opened")]
        status = node.broker.lifecycle.statistics() if node.broker is not None else None
        return checks(self._config, node.raft.voters, node.leader_id, node.loader.image.offset, status)

    def _sync_checks(self) -> Iterator[Check]:
        """The checks that `/syncz` adds; none until the logs are open."""
        node, config = self._node, self._config
        if node is None or self._stops:
            return
        if config.controller_quorum_auto_join_enable and config.is_controller:
            directory_id = node.log_manager.directory_id(config.metadata_log_dir)
            yield Check("vote", vote_missing(node.raft.voters, config.node_id, directory_id))
        if node.broker is not None:
            yield Check("replicas", self._replicas_missing(node.loader.image))

    def _replicas_missing(self, image: MetadataImage) -> str:
        """Looked for once in each image: it may have 100,000 partitions."""
        seen, missing = self._seen
        if seen is not image:
            missing = replicas_missing(image, self._config.node_id)
            self._seen = (image, missing)
        return missing

    def _logs_to_open(self) -> str:
        remaining = (progress.remaining_text() for progress in self._opening.values() if progress.remaining)
        return ", ".join(remaining)

    def _readings(self) -> Iterator[Reading]:
        labels = (("version", self._version), ("settings", self._digest))
        yield Reading(
            "penstock_node_info",
            "1; the version, and a digest of the settings that nodes of one cluster should share.",
            1,
            labels=labels,
        )
        is_ready = all(check.ok for check in self._checks())
        yield Reading("penstock_node_ready", "1 while /readyz answers 200: the node may serve.", is_ready)
        for log_dir, progress in self._opening.items():
            yield Reading(
                "penstock_logs_to_open",
                "Logs of a log dir that a start has still to open.",
                progress.remaining,
                labels=(("log_dir", log_dir),),
            )

    def __repr__(self) -> str:
        return f"OperatorPages({self._config.metrics_listener}, {self._node!r})"


class _Included:
    """A registry as a part of another one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        return self._registry.collect()


def _page(found: list[Check]) -> Page:
    return Page("".join(check.line() + "\n" for check in found), NDJSON, all(check.ok for check in found))
