"""Bugs to switch on: each is one way in which Raft has been got wrong, and the simulation must notice every one.

A mutant replaces one function for the time of a `with`. Production code has no switches. "messages_before_fsync" is the
exception that node.py implements itself, since it breaks the driver's order and not the core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from penstock.types import NO_LEADER, EpochEndOffset, EpochEntry
from raft import election as election_module
from raft import progress
from raft.decided_log import DecidedLog
from raft.driver.protocols import LoadedSnapshot
from raft.following import Following
from raft.leadership import Leadership
from raft.messages import FetchMetadataRequest, FetchMetadataResponse, VoteRequest
from raft.quorum_state import NO_VOTE, ElectionState, Forgotten, QuorumState, State
from raft.rejoining import Rejoining
from tests.simulation.raft.node import SimNode
from tests.support import raft_fakes
from tests.support.raft_fakes import MemoryLog

_save = SimNode.save
_noticed = SimNode.noticed
_may_grant = election_module.may_grant
_attach = Following.attach
_apply = Following._apply
_install_snapshot = MemoryLog.install_snapshot
_on_fetch = Leadership.on_fetch


def _vote_not_persisted(self: SimNode, state: ElectionState) -> None:
    _save(self, replace(state, voted_id=NO_VOTE))


def _epoch_not_persisted(self: SimNode, state: ElectionState) -> None:
    _save(self, replace(self.store.state or ElectionState(), leader_id=NO_LEADER))


def _count_older_epochs(majority_acked: int, epoch_start_offset: int, high_watermark: int) -> int:
    return max(majority_acked, high_watermark)


def _stuck_pre_vote(quorum: QuorumState, request: VoteRequest, up_to_date: bool, has_fetched: bool) -> bool:
    if request.pre_vote and quorum.epoch_leader_id != NO_LEADER:
        return False
    return _may_grant(quorum, request, up_to_date, has_fetched)


def _grant_without_memory(quorum: QuorumState, request: VoteRequest, up_to_date: bool, has_fetched: bool) -> bool:
    return up_to_date and quorum.state in (State.UNATTACHED, State.VOTED, State.PROSPECTIVE, State.FOLLOWER)


def _truncate_to_high_watermark(self: Following, now_ms: int) -> None:
    log = self._shared.log
    if log.log_end_offset > log.high_watermark:
        log.truncate_to(log.high_watermark)
        self._shared.outbox.truncate_to(log.high_watermark)
    _attach(self, now_ms)


def _ignore_truncation(self: Following, offset: int) -> None:
    return None


def _believe_high_watermark_while_diverging(
    self: Following, request: FetchMetadataRequest, response: FetchMetadataResponse
) -> bool:
    applied = _apply(self, request, response)
    log = self._shared.log
    log.advance_high_watermark(min(response.high_watermark, log.log_end_offset))
    return applied


def _never_diverging(self: DecidedLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
    return None


def _always_up_to_date(request: VoteRequest, own_last_epoch: int, own_log_end_offset: int) -> bool:
    return True


def _forgetting_not_persisted(self: SimNode, state: ElectionState) -> None:
    _save(self, replace(state, forgotten=Forgotten.NOTHING))


def _loss_not_noticed(self: SimNode, loss: Forgotten) -> ElectionState:
    return replace(_noticed(self, loss), forgotten=Forgotten.NOTHING)


def _rejoined_at_high_watermark(
    self: Rejoining, request: FetchMetadataRequest, response: FetchMetadataResponse
) -> bool:
    return request.fetch_offset >= response.high_watermark


def _rejoined_at_first_answer(self: Rejoining, request: FetchMetadataRequest, response: FetchMetadataResponse) -> bool:
    return True


def _snapshot_of_the_whole_log(self: SimNode) -> int:
    return self.log.log_end_offset


def _install_beside_the_log(self: MemoryLog, snapshot_id: EpochEndOffset) -> LoadedSnapshot | None:
    end, batches = self.log_end_offset, self.batches
    loaded = _install_snapshot(self, snapshot_id)
    if loaded is not None and end > snapshot_id.end_offset:
        for batch in batches:
            self._add(batch)
    return loaded


def _never_needs_a_snapshot(self: DecidedLog, fetch_offset: int, last_fetched_epoch: int) -> bool:
    return False


def _any_bytes_are_a_snapshot(data: bytes) -> tuple[bytes, ...]:
    text = data[8:]
    try:
        return tuple(bytes.fromhex(value) for value in json.loads(text))
    except ValueError:
        return ()


def _epochs_of_records(self: DecidedLog, entries: Sequence[EpochEntry]) -> tuple[EpochEntry, ...]:
    return tuple(entries)


def _acks_before_it_is_there(self: Leadership, request_id: int, request: FetchMetadataRequest, now_ms: int) -> None:
    if self._shared.log.needs_snapshot(request.fetch_offset, request.last_fetched_epoch):
        self._contacted(request, now_ms).acked_offset = self._shared.log.high_watermark + 1
    _on_fetch(self, request_id, request, now_ms)


_Patch = tuple[Any, str, Any]

PATCHES: dict[str, tuple[_Patch, ...]] = {
    "vote_not_persisted": ((SimNode, "save", _vote_not_persisted),),
    "epoch_not_persisted": ((SimNode, "save", _epoch_not_persisted),),
    "older_epoch_committed_by_counting": ((progress, "committed_offset", _count_older_epochs),),
    "leader_counts_itself_before_fsync": ((DecidedLog, "flushed_offset", property(lambda self: self.log_end_offset)),),
    "messages_before_fsync": (),
    "truncation_ignored": ((Following, "_truncate", _ignore_truncation),),
    "divergence_not_noticed": ((DecidedLog, "diverging_epoch", _never_diverging),),
    "truncation_to_high_watermark": ((Following, "attach", _truncate_to_high_watermark),),
    "high_watermark_while_diverging": ((Following, "_apply", _believe_high_watermark_while_diverging),),
    "stuck_pre_vote": ((election_module, "may_grant", _stuck_pre_vote),),
    "vote_for_a_shorter_log": ((election_module, "log_is_up_to_date", _always_up_to_date),),
    "second_vote_in_an_epoch": ((election_module, "may_grant", _grant_without_memory),),
    "loss_not_noticed": ((SimNode, "noticed", _loss_not_noticed),),
    "forgetful_voter_votes": ((QuorumState, "takes_part", property(lambda self: self.is_voter)),),
    "forgetting_not_persisted": ((SimNode, "save", _forgetting_not_persisted),),
    "one_epoch_is_enough": ((Rejoining, "unheard", property(lambda self: frozenset())),),
    "rejoined_at_high_watermark": ((Rejoining, "has_caught_up", _rejoined_at_high_watermark),),
    "rejoined_at_first_answer": ((Rejoining, "has_caught_up", _rejoined_at_first_answer),),
    "snapshot_of_what_is_not_committed": ((SimNode, "snapshot_end", _snapshot_of_the_whole_log),),
    "snapshot_installed_beside_the_log": ((MemoryLog, "install_snapshot", _install_beside_the_log),),
    "snapshot_never_needed": ((DecidedLog, "needs_snapshot", _never_needs_a_snapshot),),
    "snapshot_not_checked": ((raft_fakes, "snapshot_values", _any_bytes_are_a_snapshot),),
    "epoch_before_the_log_forgotten": ((DecidedLog, "_behind_base", _epochs_of_records),),
    "snapshot_acked_before_it_is_there": ((Leadership, "on_fetch", _acks_before_it_is_there),),
}

FIRST_SEED = {
    "vote_not_persisted": 78,
    "older_epoch_committed_by_counting": 95,
    "rejoined_at_high_watermark": 14,
    "rejoined_at_first_answer": 14,
    "snapshot_installed_beside_the_log": 13,
    "leader_counts_itself_before_fsync": 20,
    "high_watermark_while_diverging": 550,
    "one_epoch_is_enough": 240,
    "snapshot_not_checked": 40,
    "snapshot_acked_before_it_is_there": 28,
}
"""Where to look first for the rarer kills, to be quick. A change of the core or of the faults moves them."""


@contextmanager
def mutated(name: str | None, among: Mapping[str, tuple[_Patch, ...]] = MappingProxyType(PATCHES)) -> Iterator[None]:
    """Run with the mutant of this name, or with none."""
    patches = among[name] if name is not None else ()
    before = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    try:
        for owner, attribute, value in patches:
            setattr(owner, attribute, value)
        yield
    finally:
        for owner, attribute, value in before:
            setattr(owner, attribute, value)
