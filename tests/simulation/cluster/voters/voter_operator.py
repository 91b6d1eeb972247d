"""An operator of a quorum's voters: asks for one change after the other by the API that ships, whatever else happens.

Until the story is mended he adds controllers and removes voters at random, the leader and dead ones too. He removes a
voter whose disk is no more, and adds the same id with the disk that it has now; where there are faults, he has disks
replaced now and then. A quorum that began static he makes dynamic first. When the story is mended he repairs: no voter
is left whose disk is gone, then one more change is made, and what the quorum tells of its voters is what is committed
(I92).

What he asks for, and what he is told, the invariants hear at once (voter_sets.py). He never looks into a node: the
voters that he goes by are the committed ones, which an operator reads from `describe quorum` a moment later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock import AsyncAdmin
from penstock.client.admin.changes import change
from penstock.errors import PenstockError
from penstock.messages.voter_apis import ADD_VOTER, MAKE_QUORUM_DYNAMIC, REMOVE_VOTER
from penstock.messages.voters import (
    AddVoterRequest,
    MakeQuorumDynamicRequest,
    RemoveVoterRequest,
    VoterChangeResponse,
)
from raft.voter_changes import AddVoter, NameDirectories, RemoveVoter
from raft.voters import Voter
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.voters.voter_plan import VoterPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.voters.voter_sets import Change, VoterSets
    from tests.simulation.cluster.workload import Clients

LIMITS_MS: Final = (1_000, 4_000, 10_000)
RETRY_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 0.5
"""An operator who waits sees so soon that the story is mended."""
VOTERS_WANTED: Final = 3
"""With fewer, most changes add one."""
LATE_MS_MAX: Final = 500
REPLACE_SHARE: Final = 0.1
"""So often he has a disk replaced instead."""


class VoterOperator:
    """See the module."""

    def __init__(self, clients: Clients, plan: VoterPlan, sets: VoterSets) -> None:
        self._clients, self._plan, self.sets = clients, plan, sets
        self._draw = random.Random(clients.network.scheduler.draw.getrandbits(64))
        self._controllers = clients.plan.voters

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [self._works() for _ in range(self._plan.operators)]

    async def _works(self) -> None:
        admin = await self._opened()
        time = self._clients.time
        dynamic_ms = time.now_ms() + int(self._plan.dynamic_s * 1000)
        async with admin:
            while not self._clients.is_mended:
                next_ms = max(dynamic_ms, time.now_ms() + int(1000 * self._plan.pause_s * (0.5 + self._draw.random())))
                while (left_ms := next_ms - time.now_ms()) > 0 and not self._clients.is_mended:  # noqa: ASYNC110
                    await asyncio.sleep(min(left_ms / 1000, LOOK_SECONDS))
                if self._clients.is_mended:
                    break
                if self._plan.replaces and self._draw.random() < REPLACE_SHARE:
                    self._clients.site.replace_disk(self._draw.choice(self._controllers), self._draw.random())
                else:
                    await self._try(admin, self._next(), self._draw.choice(LIMITS_MS))

    async def _opened(self) -> AsyncAdmin:
        while True:
            admin = self._clients.admin()
            try:
                await admin.start()
                return admin
            except PenstockError:
                await admin.close()
                await asyncio.sleep(RETRY_SECONDS)

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def _next(self) -> Change:
        """By the committed voters; another change may be under way."""
        draw, voters = self._draw, self.sets.newest
        if not voters.is_dynamic:
            return NameDirectories()
        gone = self._gone()
        if gone:  # another removal besides could take the majority
            return _removal(draw.choice(gone))
        spare = self._spare()
        if spare and draw.random() < (0.8 if len(voters) < VOTERS_WANTED else 0.35):
            return AddVoter(draw.choice(spare))
        return _removal(self._to_remove(voters.voters))

    def _to_remove(self, voters: Sequence[Voter]) -> Voter:
        """The leader, one that is down, or any."""
        draw, choice = self._draw, self._draw.random()
        leading = [each for each in voters if self.sets.leads(each)]
        down = [each for each in voters if not self.sets.runs(each)]
        if leading and choice < 0.3:
            return leading[0]
        return draw.choice(down) if down and choice < 0.6 else draw.choice(voters)

    def _gone(self) -> list[Voter]:
        """The voters whose disk is no more."""
        return [each for each in self.sets.newest.voters if not self.sets.has_disk(each)]

    def _spare(self) -> list[Voter]:
        """The controllers that are no voters, with the disks that they have now."""
        found = (self.sets.voter_at(index) for index in self._controllers)
        return [each for each in found if each is not None and not self.sets.newest.is_voter(each.voter_id)]

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _try(self, admin: AsyncAdmin, wanted: Change, limit_ms: int) -> bool:
        """True if it was told that the change is made."""
        clients, asked = self._clients, self.sets.asked(wanted)
        began_ms = clients.time.now_ms()
        try:
            answer = await self._ask(admin, wanted, began_ms + limit_ms)
            self.sets.confirm(asked, answer.metadata_offset)
            clients.calls[f"voters {asked.name}"] += 1
            return True
        except PenstockError as error:
            clients.refused[type(error).__name__] += 1
            clients.calls[f"voters not {asked.name}"] += 1
            return False
        finally:
            self.sets.over(asked)
            took_ms = clients.time.now_ms() - began_ms
            if took_ms > limit_ms + LATE_MS_MAX:
                clients.ledger.report("late-call", f"{wanted} took {took_ms} ms, its limit is {limit_ms} ms")

    async def _ask(self, admin: AsyncAdmin, wanted: Change, deadline_ms: int) -> VoterChangeResponse:
        cluster = core_of(admin).cluster
        await cluster.wait_ready()
        if isinstance(wanted, NameDirectories):
            return await change(cluster, MAKE_QUORUM_DYNAMIC, MakeQuorumDynamicRequest(), deadline_ms, _judge)
        if isinstance(wanted, RemoveVoter):
            removal = RemoveVoterRequest(wanted.voter_id, wanted.directory_id)
            return await change(cluster, REMOVE_VOTER, removal, deadline_ms, _judge)
        voter, is_hasty = wanted.voter, not self._clients.is_mended and self._draw.random() < 0.2
        addition = AddVoterRequest(
            voter.voter_id, voter.directory_id or "", voter.endpoints, ack_when_appended=is_hasty
        )
        return await change(cluster, ADD_VOTER, addition, deadline_ms, _judge)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def ends(self) -> None:
        """The cluster is whole: voters whose disk is no more are removed, and one more change is made. What another
        operator has begun before may end meanwhile, so each try goes by the voters of that moment."""
        async with await self._opened() as admin:
            has_changed = False
            while self._gone() or not self.sets.newest.is_dynamic or not has_changed:
                has_changed = await self._try(admin, self._repair(), LIMITS_MS[-1])
                await asyncio.sleep(RETRY_SECONDS)
            await self._until_known(admin)

    def _repair(self) -> Change:
        voters, gone, spare = self.sets.newest, self._gone(), self._spare()
        if not voters.is_dynamic:
            return NameDirectories()
        if gone:
            return _removal(gone[0])
        if spare and (len(voters) < VOTERS_WANTED or len(voters) == 1):
            return AddVoter(self._draw.choice(spare))
        return _removal(self._draw.choice(voters.voters))

    async def _until_known(self, admin: AsyncAdmin) -> None:
        """Until the quorum tells of the voters that are committed."""
        while True:
            try:
                described = await admin.describe_quorum()
                keys = tuple(sorted((each.node_id, each.directory_id) for each in described.voters))
                if described.has_leader and described.is_dynamic and keys == self.sets.newest.keys:
                    return
            except PenstockError:
                pass
            await asyncio.sleep(RETRY_SECONDS)


def _removal(voter: Voter) -> RemoveVoter:
    return RemoveVoter(voter.voter_id, voter.directory_id or "")


def _judge(answer: VoterChangeResponse) -> None:
    if answer.error is not None:
        raise answer.error


def mend_voters(clients: Clients, until: Callable[[Callable[[], bool], str], None]) -> Sequence[str]:
    """I92, while everything is mended: the voters can be changed, and all nodes know the same in the end. `until` waits
    for what it is given. Returns what was wrong."""
    operator = clients.voter_operator
    if operator is None:
        return ()
    repairing, sets = clients.spawn(operator.ends()), operator.sets
    until(repairing.done, "I92: the voters can be changed")
    until(lambda: not sets.unknown(), "I92: every node knows the voters that are committed")
    return sets.wrong
