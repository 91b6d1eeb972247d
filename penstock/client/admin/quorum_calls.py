"""The calls of Admin that change the quorum's voters, or forget a controller, as its faces have them (KIP-853).

A change is over when every broker in service has heard of it. One whose answer was lost is asked for again, and a
repetition that finds it done for the very same disk is a success (`penstock/messages/repetitions.py`). Not here: which
change is possible when, which the quorum's leader decides, and the quorum's description (cluster_views.py).
"""

from __future__ import annotations

from typing import Any, Final

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.changes import change
from penstock.client.admin.configs import wait_heard
from penstock.client.cluster import arguments
from penstock.client.options.options import parse_address
from penstock.messages.api import Api
from penstock.messages.voter_apis import ADD_VOTER, MAKE_QUORUM_DYNAMIC, REMOVE_VOTER, UNREGISTER_CONTROLLER
from penstock.messages.voters import (
    AddVoterRequest,
    MakeQuorumDynamicRequest,
    RemoveVoterRequest,
    UnregisterControllerRequest,
    VoterChangeResponse,
)
from penstock.types import ListenerEndpoint

CONTROLLER_LISTENER: Final = "CONTROLLER"
CONTROLLER_PORT: Final = 9193
"""The port of that listener in examples."""


class QuorumCalls:
    """The changes of voters, and of other controllers, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def add_voter(self, voter_id: int, directory_id: str, address: str) -> None:
        """Makes a voter of a controller that fetches the metadata already, at "host:port" of its listener CONTROLLER.

        Waits for one that has not caught up yet, up to the time limit of the call. DuplicateVoterError for an id that
        votes already, also with another disk: remove that first. UnsupportedVersionError while the voters are those of
        the configuration: `make_quorum_dynamic` comes first.
        """
        _check_voter(voter_id, directory_id)
        endpoints = (ListenerEndpoint(CONTROLLER_LISTENER, parse_address(address, "address", CONTROLLER_PORT)),)
        await self._change(ADD_VOTER, AddVoterRequest(voter_id, directory_id, endpoints))

    async def remove_voter(self, voter_id: int, directory_id: str) -> None:
        """Takes its vote from a voter, which goes on as an observer if it runs. The directory id is its own, as
        `describe_quorum` has it; VoterNotFoundError if no voter has both ids."""
        _check_voter(voter_id, directory_id)
        await self._change(REMOVE_VOTER, RemoveVoterRequest(voter_id, directory_id))

    async def make_quorum_dynamic(self) -> None:
        """Names the disk of each voter in the metadata log, so that voters can be added and removed from then on.

        The voters stay those that they are. It cannot be undone. Each voter must run with a release that can do it.
        """
        await self._change(MAKE_QUORUM_DYNAMIC, MakeQuorumDynamicRequest())

    async def unregister_controller(self, controller_id: int) -> None:
        """Makes the quorum's leader forget a controller that is gone for good, and votes no more.

        `describe_quorum` shows it as an observer until then, or until there is another leader. PolicyViolationError
        while it is a voter, and while it runs; ControllerIdNotRegisteredError if the leader knows none of this id.
        """
        arguments.checked_number("controller_id", controller_id, 0, arguments.MAX_INT32)
        await self._change(UNREGISTER_CONTROLLER, UnregisterControllerRequest(controller_id))

    async def _change(self, api: Api[Any, VoterChangeResponse], request: Any) -> None:
        deadline_ms = await self._core.begin()
        answer = await change(self._core.cluster, api, request, deadline_ms, _refusal)
        await wait_heard(self._core.cluster, answer.metadata_offset, deadline_ms)


def _refusal(answer: VoterChangeResponse) -> None:
    if answer.error is not None:
        raise answer.error


def _check_voter(voter_id: int, directory_id: str) -> None:
    arguments.checked_number("voter_id", voter_id, 0, arguments.MAX_INT32)
    if not isinstance(directory_id, str):
        raise TypeError(f"directory_id must be a str, not {type(directory_id).__name__}")
    if not directory_id:
        raise ValueError("directory_id is empty; it is directory.id in meta.properties of the node's metadata log dir")
