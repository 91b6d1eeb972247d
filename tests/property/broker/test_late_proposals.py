"""A leader's proposals of ISRs that get lost, are sent again, and come late: I12 holds in whatever order that happens.

The controller and the leader's view (`LeaderState`) are those that ship. A request may arrive long after the leader has
given it up and sent another one; then nobody hears its answer. Brokers are fenced, serve again and restart meanwhile,
the controller changes, and the leader's metadata is late.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from broker.replication.leader.leader_state import LeaderState, ProposedIsr
from metadata.controller import partitions
from penstock.errors import IneligibleReplicaError, NotControllerError
from penstock.messages.nodes.partitions import AlterPartitionData, AlterPartitionRequest, AlterPartitionResult
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.unit.metadata.harness import Cluster

STEPS, SEEDS = 300, 30
LAG_MS = 1_000
LATE_MAX = 3


class Walk:
    """One partition on three brokers, which one of them leads all the time. All have every record: what changes is who
    is in service."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"late proposals {seed}")
        self.cluster = Cluster(3, seed=seed)
        self.cluster.create("t", replication_factor=3)
        self.view = self.cluster.image
        state = self.cluster.partition("t")
        self.leader_id, self.follower_ids = state.leader_id, [r for r in state.replicas if r != state.leader_id]
        self.leading = LeaderState.begin(self.leader_id, state, 0, 0)
        self.late: list[AlterPartitionRequest] = []
        self.proposed_at = self.view
        self.seen: Counter[str] = Counter()
        self.actions: tuple[tuple[Callable[[], object], int], ...] = (
            (self.propose, 10),
            (self.send, 10),
            (self.arrive_late, 3),
            (self.learn, 10),
            (self.fence, 20),
            (self.serve, 10),
            (self.restart, 1),
            (self.cluster.fail_over, 1),
        )
        self.learn()

    def step(self) -> None:
        self.random.choices(*zip(*self.actions, strict=True))[0]()
        committed = self.cluster.partition("t")
        assert committed.leader_epoch == self.leading.leader_epoch
        assert self.leading.maximal_isr.issuperset(committed.isr), f"I12: {self.leading} does not wait for {committed}"

    # -- the leader ----------------------------------------------------------------------------------------------------

    def learn(self) -> None:
        """It reads all metadata, and its followers fetch under their present epochs."""
        self.view = self.cluster.image
        state = self.cluster.partition("t")
        self.leading.commit_isr(state.isr, state.partition_epoch, state.elr)
        for follower in self.follower_ids:
            self.leading.note_fetch(follower, self.view.brokers[follower].broker_epoch, 0, 0, 0)

    def propose(self) -> None:
        follower, own_epoch = self.random.choice(self.follower_ids), self.view.brokers[self.leader_id].broker_epoch
        if self.random.random() < 0.3:
            self.leading.followers[follower].log_end_offset = -1  # it lags
            proposed = self.leading.propose_shrink(0, own_epoch, LAG_MS + 1, LAG_MS)
        else:
            is_active = self.view.brokers[follower].is_active
            proposed = self.leading.propose_expand(follower, 0, own_epoch, eligible=is_active)
        if proposed is not None:
            self.proposed_at = self.view

    def send(self) -> None:
        """Sends the leader's proposal once more. The request is late, or its answer is lost, or all goes well."""
        proposed = self.leading.proposed
        if proposed is None:
            return
        data = AlterPartitionData(
            *self.cluster.partition("t").key, self.leading.leader_epoch, proposed.partition_epoch, proposed.members
        )
        request = AlterPartitionRequest(self.leader_id, self.view.brokers[self.leader_id].broker_epoch, (data,))
        if self.random.random() < 0.4:
            self.late = [*self.late, request][-LATE_MAX:]
            return
        is_up_to_date = self.proposed_at is self.cluster.image
        result = self._decide(request)
        if isinstance(result.error, IneligibleReplicaError):
            assert not is_up_to_date, f"a leader that knows everything is refused: {result.error}"
        if self.random.random() < 0.8:
            self._hear(proposed, result)

    def _hear(self, proposed: ProposedIsr, result: AlterPartitionResult) -> None:
        self.seen["heard" if result.error is None else type(result.error).__name__] += 1
        assert not isinstance(result.error, NotControllerError)
        if result.error is None:
            self.leading.commit_isr(result.isr, result.partition_epoch, result.elr)
        elif isinstance(result.error, IneligibleReplicaError):
            self.leading.reject_proposal(proposed)

    def arrive_late(self) -> None:
        if self.late:
            result = self._decide(self.late.pop(self.random.randrange(len(self.late))))
            self.seen["late, accepted" if result.error is None else "late, refused"] += 1

    def _decide(self, request: AlterPartitionRequest) -> AlterPartitionResult:
        answer = self.cluster.commit(self.cluster.controller.alter_partition(request, self.cluster.now_ms))
        return answer.partitions[0]

    # -- its followers -------------------------------------------------------------------------------------------------

    def fence(self) -> None:
        self.cluster.heartbeat(self.random.choice(self.follower_ids), fence=True)

    def serve(self) -> None:
        self.cluster.heartbeat(self.random.choice(self.follower_ids))

    def restart(self) -> None:
        follower = self.random.choice(self.follower_ids)
        self.cluster.come_back(follower, previous_broker_epoch=self.cluster.image.brokers[follower].broker_epoch)


def run(seed: int) -> Counter[str]:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    return walk.seen


def test_a_leader_waits_for_every_isr_that_the_controller_may_still_accept() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += run(seed)
    for what in ("heard", "late, accepted", "late, refused", "IneligibleReplicaError", "InvalidUpdateVersionError"):
        assert seen[what] > 5, seen


REFUSED_BUT_NOT_FOR_GOOD = Mutant(
    "an ISR that was refused may be accepted later",
    "KIP-841: a late AlterPartition",
    (Edit(partitions.alter_partition, "if isinstance(error, IneligibleReplicaError):", "if False:"),),
)


def test_a_refusal_that_is_not_final_is_noticed() -> None:
    with switched_on(REFUSED_BUT_NOT_FOR_GOOD), pytest.raises(AssertionError, match="I12"):
        for seed in range(SEEDS):
            run(seed)
