"""Logs what the behaviour of the quorum does not show: voters that forgot, voters that do not know it, forged epochs.

Decides nothing. Metrics are statistics.py.
"""

from __future__ import annotations

import logging

from penstock.clock import Clock
from penstock.errors import UnknownLeaderEpochError
from raft.core import RaftCore
from raft.driver.describe import promises_text
from raft.messages import Request, Response
from raft.quorum_replicas import LostAcks
from raft.quorum_state import Forgotten
from raft.validation import is_epoch_jump, request_epoch

_log = logging.getLogger(__name__)

INTERVAL_MS = 10_000
"""The time in which at most one line is logged about refused epochs, because forged ones come in large numbers."""


class Notices:
    """The lines of one node, with what it logged last."""

    def __init__(self, node_id: int, clock: Clock) -> None:
        self._node_id = node_id
        self._clock = clock
        self._forgotten = Forgotten.NOTHING
        self._next_jump_ms: int | None = None
        self._jumps = 0
        self._lost_acks: LostAcks | None = None

    def note_promises(self, core: RaftCore) -> None:
        """Logs, once for each change, that this voter has forgotten its promises or knows them again."""
        if core.forgotten is not self._forgotten:
            self._forgotten = core.forgotten
            _log.warning("voter %d: %s", self._node_id, promises_text(core))

    def note_lost_acks(self, core: RaftCore) -> None:
        """Logs, once, a voter that came back without what it had acked: its own files cannot tell (docs/adr/0009)."""
        found = None if core.leadership is None else core.leadership.replicas.lost_acks
        if found is not None and found is not self._lost_acks:
            self._lost_acks = found
            _log.error(
                "voter %d, with directory id %s, fetches from offset %d, and had acked up to %d: its metadata log dir"
                " is an older copy, or its disk lied about a flush. It may vote twice in an epoch. Unless its own log"
                " says that it has forgotten what it promised, stop it and empty that dir: see `A quorum whose voters"
                " are disks` in docs/data-directory.md",
                found.voter_id,
                found.directory_id or "unknown",
                found.fetched_offset,
                found.acked_offset,
            )

    def note_answer(self, request: Request, response: Response) -> None:
        """Logs a refused epoch, if the answer to the request is such a refusal."""
        refused = response.error_code == UnknownLeaderEpochError.code
        if not refused or not is_epoch_jump(request, response.leader_epoch):
            return
        self._jumps += 1
        now_ms = self._clock.now_ms()
        if self._next_jump_ms is None or now_ms >= self._next_jump_ms:
            self._next_jump_ms = now_ms + INTERVAL_MS
            _log.warning(
                "node %d: a %s with epoch %d was refused, this node is in epoch %d (%d refused since the start). If no "
                "voter has that epoch, the request was forged: let only nodes connect to the CONTROLLER listener",
                self._node_id,
                type(request).__name__,
                request_epoch(request),
                response.leader_epoch,
                self._jumps,
            )

    def __repr__(self) -> str:
        return f"Notices(node {self._node_id}, {self._jumps} epochs refused)"
