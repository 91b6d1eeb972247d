"""Says what a node lacks before it may serve: the lines of `/readyz`.

A broker is ready while the controller lets it serve (the same as SERVING of gRPC's health service, and as READY=1 to
systemd at a start). A node that is only a controller is ready while the quorum has a leader. The other lines say how
far a node is on its way there, so the first one that is not ok names the cause. Not here: HTTP (`operator_pages.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.types import NO_EPOCH
from raft.voters import VoterSet


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


class BrokerStanding(Protocol):
    """How a broker stands with the controller."""

    @property
    def is_fenced(self) -> bool: ...

    @property
    def broker_epoch(self) -> int: ...


def checks(
    config: NodeConfig, voters: VoterSet, leader_id: int, metadata_offset: int, standing: BrokerStanding | None
) -> list[Check]:
    """The checks of a node whose logs are open. `voters` are the present ones; `standing` is None without the broker
    role."""
    if standing is None:
        return [Check("logs"), Check("quorum", "" if leader_id >= 0 else _no_leader(voters))]
    if not standing.is_fenced:
        # An election of a moment ago does not keep a broker from serving; a longer one fences it.
        return [Check("logs"), Check("registration"), Check("metadata"), Check("in-service")]
    return [
        Check("logs"),
        Check("quorum", "" if leader_id >= 0 else _no_leader(voters)),
        Check("registration", _not_registered(config) if standing.broker_epoch == NO_EPOCH else ""),
        Check("metadata", _metadata_behind(metadata_offset, standing.broker_epoch)),
        Check("in-service", "the controller does not let this broker serve (it is fenced)"),
    ]


def _no_leader(voters: VoterSet) -> str:
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
