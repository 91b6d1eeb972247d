"""A stage for transcripts: a few cores, a network in the hands of the script, and a line for everything that happens.

Nothing moves unless the script says so: `run_ms` lets time pass and delivers what can be delivered, `cut` and `heal`
change what can. Times begin at 0. A transcript is for reading: what is persisted, said and committed, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from random import Random
from types import MappingProxyType
from typing import Any

from penstock import epochs
from raft.core import RaftCore
from raft.messages import (
    AnswerReceived,
    FetchMetadataRequest,
    FetchMetadataResponse,
    Outbound,
    Request,
    RequestFailed,
    Response,
    VoteRequest,
)
from raft.quorum_state import ElectionState, State
from raft.ready import FollowerAppend, Ready
from raft.voters import VoterSet
from tests.support.raft_bench import Bench, log_of
from tests.support.raft_fakes import values_of

STEP_MS = 10


class Actor(Bench):
    """A bench that tells the stage what its Readys say."""

    stage: Stage
    last_state: str = ""

    def _perform(self, ready: Ready) -> None:
        super()._perform(ready)
        self.stage.describe_ready(self, ready)


class Stage:
    def __init__(
        self,
        voters: int = 3,
        observers: int = 0,
        *,
        logs: Mapping[int, Sequence[int]] = MappingProxyType({}),
        epoch: int = 0,
        terse: bool = False,
        **config: int,
    ) -> None:
        """`logs`: the epochs of the records that a node has already; all nodes are in `epoch` then. `terse`: no message
        is shown, of states only who leads, and of records their epochs."""
        self._config, self._is_terse = config, terse
        self._candidates: tuple[int, ...] | None = None
        self._moment: tuple[Callable[[], bool], Callable[[], object]] | None = None
        self.lines: list[str] = []
        self.now_ms = 0
        self.ids = tuple(range(1, voters + 1))
        self.actors: dict[int, Actor] = {}
        self._cut: set[tuple[int, int]] = set()
        self._parked: dict[tuple[int, int], tuple[int, Outbound]] = {}  # (answerer, request id) → (asker, question)
        self._gone: dict[int, Actor] = {}
        self._quiet = False
        self._committed: dict[int, int] = {}
        for node_id in range(1, voters + observers + 1):
            self._raise_curtain(
                node_id, Bench(node_id, self.ids, ElectionState(epoch), log_of(*logs[node_id])) if logs else None
            )

    def say(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def note(self, node_id: int, text: str) -> None:
        if not self._quiet:
            self.lines.append(f"{self.now_ms:>6}  node {node_id}  {text}")

    # -- what a script does --------------------------------------------------------------------------------------------

    def run_ms(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            for actor in list(self.actors.values()):
                actor.now_ms = self.now_ms
                if self.now_ms >= actor.core.next_deadline_ms():
                    actor.core.tick(self.now_ms)
                    actor.perform()
                    self._show_state(actor)
            self._deliver_all()

    def run_until(self, done: Callable[[], bool], limit_ms: int = 30_000) -> None:
        end_ms = self.now_ms + limit_ms
        while not done():
            if self.now_ms >= end_ms:
                raise AssertionError("the scene did not come about")
            self.run_ms(STEP_MS)

    def run_until_leader(self, *but_not: int) -> int:
        def leaders() -> list[Actor]:
            return [a for a in self.actors.values() if a.core.leadership and a.core.leadership.has_committed]

        self.run_until(lambda: any(actor.config.node_id not in but_not for actor in leaders()))
        return max(leaders(), key=lambda actor: actor.core.epoch).config.node_id

    def open_quietly(self) -> int:
        """The usual beginning, which has a transcript of its own: who was elected."""
        self._quiet = True
        leader = self.run_until_leader()
        self.run_ms(100)
        self._quiet = False
        self.lines = [f"        … node {leader} was elected and its LeaderChange is on every node"]
        return leader

    def quietly_run_ms(self, ms: int) -> None:
        """Let routine pass without a line."""
        self._quiet = True
        self.run_ms(ms)
        self._quiet = False
        self.lines.append(f"        … {ms} ms later")

    def propose(self, node_id: int, *values: bytes) -> None:
        actor = self.actors[node_id]
        offset = actor.core.propose(values)
        self.note(node_id, f"proposes {', '.join(v.decode() for v in values)} up to offset {offset}")
        actor.perform()
        self._deliver_all()

    def resign(self, node_id: int) -> None:
        self.note(node_id, "is asked to stop")
        self.actors[node_id].core.resign(self.now_ms)
        self.actors[node_id].perform()
        self._show_state(self.actors[node_id])
        self._deliver_all()

    def cut(self, node_id: int, *others: int) -> None:
        for other in others or tuple(other for other in self.actors if other != node_id):
            self._cut |= {(node_id, other), (other, node_id)}
        self.say(f"node {node_id} is cut off from {', '.join(map(str, others)) or 'everybody'}")

    def heal(self) -> None:
        self._cut.clear()
        self.say("the network heals")

    def crash(self, node_id: int) -> None:
        self.say(f"node {node_id} crashes")
        actor = self.actors.pop(node_id)
        self._gone[node_id] = actor
        self._parked = {k: v for k, v in self._parked.items() if k[0] != node_id and v[0] != node_id}

    def restart(self, node_id: int) -> None:
        self.say(f"node {node_id} starts again with what was on its disk")
        gone = self._gone.pop(node_id)
        self._raise_curtain(node_id, gone)

    def stands(self, *node_ids: int) -> None:
        """From now on the network loses what all others ask for an election."""
        self._candidates = node_ids

    def at_the_moment(self, has_come: Callable[[], bool], strike: Callable[[], object]) -> None:
        """Once, in the middle of a conversation."""
        self._moment = has_come, strike

    def lead(self, node_id: int) -> None:
        """The node stands, and is elected."""
        self.stands(node_id)
        self.run_until(lambda: node_id in self.actors and self.actors[node_id].core.leadership is not None)

    def show_epochs(self) -> None:
        """Shows the epoch of each record of each node, as the paper's figures have them."""
        for node_id, actor in sorted(self.actors.items()):
            self.note(
                node_id, f"has {' '.join(map(str, epochs_of(actor)))}, high watermark {actor.core.high_watermark}"
            )

    def show_logs(self) -> None:
        for node_id, actor in sorted(self.actors.items()):
            epochs = " ".join(f"{entry.epoch}@{entry.start_offset}" for entry in actor.log.epoch_entries)
            core = actor.core
            self.note(
                node_id,
                f"{core.state.value}, epoch {core.epoch}, log end {core.log_end_offset}, "
                f"high watermark {core.high_watermark}, epochs {epochs}",
            )

    # -- the machinery -------------------------------------------------------------------------------------------------

    def _raise_curtain(self, node_id: int, before: Bench | None) -> None:
        log = before.log.crash() if before is not None else None
        stored = before.store.state if before is not None else None
        voters, config = self.config_of(node_id)
        actor = Actor(node_id, voters, stored or ElectionState(), log, **config)
        actor.stage = self
        actor.now_ms = self.now_ms
        actor.core = RaftCore(
            actor.config, stored or ElectionState(), actor.log, Random(node_id * 7 + self.now_ms), self.now_ms
        )
        self.actors[node_id] = actor
        actor.perform()
        self._show_state(actor)

    def config_of(self, node_id: int) -> tuple[tuple[int, ...] | VoterSet, dict[str, Any]]:
        """The first voters that the node knows, and its other settings."""
        return self.ids, dict(self._config)

    def describe_ready(self, actor: Bench, ready: Ready) -> None:
        node_id = actor.config.node_id
        if ready.election_state is not None and not self._is_terse:
            state = ready.election_state
            self.note(node_id, f"persists epoch {state.epoch}, leader {state.leader_id}, vote {state.voted_id}")
        if ready.truncate_to is not None:
            self.note(node_id, f"truncates its log to {ready.truncate_to}")
        for append in ready.append:
            values = values_of(append.records) if isinstance(append, FollowerAppend) else append.values
            text = ", ".join(_short(value) for value in values)
            if self._is_terse:
                text = f"epoch {' '.join(map(str, epochs_of(actor)[append.base_offset :]))}"
            self.note(node_id, f"appends and fsyncs at {append.base_offset}: {text}")
        if ready.committed_offset is not None:
            self.note(node_id, f"high watermark {ready.committed_offset}")
            self._must_stay(actor, ready.committed_offset)

    def _show_state(self, actor: Actor) -> None:
        core = actor.core
        text = f"{core.state.value} in epoch {core.epoch}" + (f" of {core.leader_id}" if core.leader_id >= 0 else "")
        if text != actor.last_state:
            actor.last_state = text
            if core.state is State.LEADER or not self._is_terse:
                self.note(actor.config.node_id, f"is {text}")

    def _deliver_all(self) -> None:
        """Questions and answers, until everybody waits for time to pass."""
        moved = True
        while moved:
            moved = False
            for actor in list(self.actors.values()):
                for outbound in actor.take_sent():
                    moved = True
                    if self.actors.get(actor.config.node_id) is actor:
                        self._deliver(actor, outbound)
                        self._strike()
            for (answerer, request_id), (asker, outbound) in list(self._parked.items()):
                if (answerer, request_id) not in self._parked:
                    continue
                response = self.actors[answerer].replies.pop(request_id, None)
                if response is not None:
                    moved = True
                    del self._parked[answerer, request_id]
                    self._answer(asker, answerer, outbound, response)
                    self._strike()

    def _deliver(self, asker: Actor, outbound: Outbound) -> None:
        sender = asker.config.node_id
        is_lost = (
            isinstance(outbound.request, VoteRequest)
            and self._candidates is not None
            and sender not in self._candidates
        )
        if is_lost or outbound.to not in self.actors or (sender, outbound.to) in self._cut:
            self._say_request(sender, outbound, " (lost)")
            asker.core.step(RequestFailed(outbound.correlation_id), self.now_ms)
            asker.perform()
            return
        self._say_request(sender, outbound, "")
        target = self.actors[outbound.to]
        request_id = target.ask(outbound.request)
        self._show_state(target)
        self._parked[outbound.to, request_id] = (sender, outbound)

    def _answer(self, asker: int, answerer: int, outbound: Outbound, response: Response) -> None:
        actor = self.actors[asker]
        lost = (answerer, asker) in self._cut
        self._say_response(answerer, asker, response, " (lost)" if lost else "")
        inbound = RequestFailed(outbound.correlation_id) if lost else AnswerReceived(outbound.correlation_id, response)
        actor.core.step(inbound, self.now_ms)
        actor.perform()
        self._show_state(actor)

    def _strike(self) -> None:
        if self._moment is not None and self._moment[0]():
            (_, strike), self._moment = self._moment, None
            strike()

    def _must_stay(self, actor: Bench, high_watermark: int) -> None:
        """I6: a record that was committed once has the same epoch wherever it is committed."""
        for offset, epoch in enumerate(epochs_of(actor)[:high_watermark]):
            first = self._committed.setdefault(offset, epoch)
            assert first == epoch, f"offset {offset} was committed in epoch {first}, now in epoch {epoch}"

    def _say_request(self, sender: int, outbound: Outbound, fate: str) -> None:
        if self._is_terse:
            return
        self.note(sender, f"→ {outbound.to}  {_request_text(outbound.request)}{fate}")

    def _say_response(self, sender: int, to: int, response: Response, fate: str) -> None:
        if self._is_terse:
            return
        self.note(sender, f"⇢ {to}  {_response_text(response)}{fate}")


def epochs_of(actor: Bench) -> list[int]:
    """The epoch of each record."""
    return [epochs.epoch_for_offset(actor.log.epoch_entries, offset) for offset in range(actor.log.log_end_offset)]


def _request_text(request: Request) -> str:
    match request:
        case VoteRequest():
            kind = "PreVote" if request.pre_vote else "Vote"
            end = f"{request.last_epoch}@{request.last_epoch_end_offset}"
            return f"{kind} epoch {request.candidate_epoch}, my log ends at {end}"
        case FetchMetadataRequest():
            return f"FetchMetadata at {request.fetch_offset} after epoch {request.last_fetched_epoch}"
        case _:
            return f"{type(request).__name__.removesuffix('Request')} epoch {request.leader_epoch}"


def _response_text(response: Response) -> str:
    name = type(response).__name__.removesuffix("Response")
    shown = replace(response, error_message="")
    if isinstance(shown, FetchMetadataResponse):
        shown = replace(shown, records=b"", log_start_offset=-1)
    parts = [f"{f.name} {getattr(shown, f.name)}" for f in fields(shown) if getattr(shown, f.name) != f.default]
    if isinstance(response, FetchMetadataResponse) and response.records:
        parts.append(f"{len(values_of(response.records))} records")
    return f"{name} {', '.join(parts)}".rstrip()


def _short(value: bytes) -> str:
    return "LeaderChange" if b"LeaderChange" in value else value.decode()
