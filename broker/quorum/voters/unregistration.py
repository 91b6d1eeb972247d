"""Decides whether a controller may be forgotten (UnregisterController), on the quorum's leader.

A controller has no record here: what is registered of it is what the leader knows of each node that fetches the
metadata, which is how far it is, which disk it has and which levels it supports. A leader keeps that for as long as it
leads, and the node itself brings it again with its next fetch. So only a node that is away is forgotten. A voter is
refused, because the metadata log names it: `remove-voter` comes first. Another disk of a voter's id is an observer, and
is forgotten by that id. A broker that has the id stays registered (metadata/controller/brokers/unregistration.py).
"""

from __future__ import annotations

from typing import Protocol

from penstock.errors import (
    ApiError,
    ControllerIdNotRegisteredError,
    NotControllerError,
    PolicyViolationError,
)
from penstock.messages.voters import UnregisterControllerRequest, VoterChangeResponse
from raft.config import RaftConfig
from raft.statistics import QuorumDescription
from raft.voters import VoterSet


class KnownNodes(Protocol):
    """The raft driver, as an unregistration sees it."""

    config: RaftConfig

    @property
    def voters(self) -> VoterSet: ...

    def describe(self) -> QuorumDescription: ...

    def forget_observer(self, replica_id: int) -> int: ...


def unregister_controller(raft: KnownNodes, request: UnregisterControllerRequest) -> VoterChangeResponse:
    """Forgets the controller, or answers why not; NotControllerError where this node does not lead the quorum."""
    node_id = request.controller_id
    try:
        if raft.forget_observer(node_id):
            return VoterChangeResponse()
    except NotControllerError:
        raise
    except ApiError as error:
        return VoterChangeResponse(error)
    refusal = _refusal(raft, node_id)
    return VoterChangeResponse(refusal, is_so_already=isinstance(refusal, ControllerIdNotRegisteredError))


def _refusal(raft: KnownNodes, node_id: int) -> ApiError:
    if raft.voters.is_voter(node_id):
        return PolicyViolationError(
            f"controller {node_id} is a voter; take its vote first (`penstock quorum remove-voter`), and stop it"
        )
    if any(one.replica_id == node_id for one in raft.describe().observers):
        return PolicyViolationError(
            f"node {node_id} runs: it fetched the metadata within the last {raft.config.fetch_timeout_ms} ms; stop it"
            " first, or wait until that time is over"
        )
    return ControllerIdNotRegisteredError(
        f"the quorum's leader knows no controller {node_id}; `penstock quorum describe` shows those that it knows"
    )
