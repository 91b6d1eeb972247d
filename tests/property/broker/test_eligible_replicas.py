"""Whatever happens in whatever order: a member of the ISR or of the ELR has every committed record (I32)."""

from __future__ import annotations

from collections import Counter

import pytest

from broker.replication.leader.leader_state import LeaderState
from metadata.controller import partitions
from metadata.controller.brokers import eligibility
from metadata.controller.configuration import topic_configs
from metadata.controller.elections import broker_elections, election
from penstock.errors import InvariantViolation
from tests.property.broker.eligible_model import Model
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.support.amount import usually

STEPS = 2000
SEEDS = 30


def run(seed: int, flush_policy: str = "fsync") -> Model:
    model = Model(seed, flush_policy)
    for _ in range(STEPS):
        model.step()
    return model


@pytest.mark.parametrize("flush_policy", ["fsync", "os"])
@pytest.mark.parametrize("seed", range(usually(6, long=SEEDS)))
def test_isr_and_elr_have_every_committed_record(seed: int, flush_policy: str) -> None:
    run(seed, flush_policy)


def test_the_model_reaches_what_it_is_meant_to_reach() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += run(seed).seen
    reached = (
        "disk lost",
        "disk failed",
        "last member on a failed disk",
        "came back",
        "with ELR",
        "elected from the ELR",
    )
    for what in ("commit", *reached):
        assert seen[what] > 10, seen


MISTAKES = (
    Mutant(
        "an ELR survives a lower min.insync.replicas",
        "KIP-966",
        (Edit(topic_configs.topic_records, "*emptied_elrs(partitions, min_isr), ", ""),),
    ),
    Mutant(
        "the ELR is kept though the ISR is large enough",
        "KIP-966",
        (Edit(election.eligible_replicas, "len(members) >= min_isr", "False"),),
    ),
    Mutant(
        "a replica whose log dir is lost stays eligible",
        "KIP-858",
        (Edit(eligibility.doubts_about, "if now is None:", "if False:"),),
    ),
    Mutant(
        "an unclean restart with flush.policy=os counts for nothing",
        "KIP-966",
        (Edit(eligibility.doubts_about, "is_clean or policies == {FLUSHED_BEFORE_ACK}", "True"),),
    ),
    Mutant(
        "a leader commits though there is an ELR",
        "own fault list: a late min.insync.replicas",
        (Edit(LeaderState.may_commit, "not self.elr and ", ""),),
    ),
    Mutant(
        "the answer to AlterPartition does not name the ELR",
        "own fault list: a late min.insync.replicas",
        (Edit(partitions._accepted, "elr=partition.elr,", ""),),
    ),
    Mutant(
        "whoever was in the ELR may enter it again",
        "KIP-966",
        (Edit(election.eligible_replicas, "        return ()", "        return partition.elr"),),
    ),
    Mutant(
        "a registration does not look at ELRs",
        "KIP-966",
        (Edit(broker_elections.changes_when_leaving, "if doubts is None else state.partitions_with_member", ""),),
    ),
    Mutant(
        "a replica that is unfit becomes eligible",
        "KIP-966",
        (Edit(election.eligible_replicas, "difference(members, unfit, ", "difference(members, "),),
    ),
)


@pytest.mark.parametrize("mutant", MISTAKES, ids=lambda mutant: mutant.name)
def test_a_mistake_is_noticed(mutant: Mutant) -> None:
    with switched_on(mutant), pytest.raises((AssertionError, InvariantViolation)):
        for seed in range(100):
            for flush_policy in ("fsync", "os"):
                run(seed, flush_policy)
