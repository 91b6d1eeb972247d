"""Stories whose nodes are of two releases: who draws them, what they come to, and what the oracle of levels refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.codec import UnsupportedMetadataRecordError, encode_record
from metadata.features import TABLE, FinalizedLevel
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import FeatureLevelRecord, Record, RegisterBrokerRecord
from metadata.registrations import BrokerRegistration
from penstock.record.builder import build_batch
from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.durable_log import Batch, Violated
from tests.simulation.cluster.levels.drawn_levels import DROPPED, with_levels
from tests.simulation.cluster.levels.level_history import METADATA_VERSION, LevelHistory
from tests.simulation.cluster.mutants.levels import rolling
from tests.simulation.cluster.plan import Fault, Kind
from tests.simulation.cluster.world import World
from tests.support.amount import usually

TO_2, TO_1 = FeatureLevelRecord(METADATA_VERSION, 2, "0.3.0"), FeatureLevelRecord(METADATA_VERSION, 1, "0.2.0")
SAYING = RegisterBrokerRecord(1, "i", 5, "h", 1, features=TABLE.said)
BROKER = BrokerRegistration.from_record(SAYING)


def batch(base_offset: int, *records: Record) -> Batch:
    raw = build_batch([encode_record(r) for r in records], timestamps_ms=0, base_offset=base_offset, leader_epoch=1)
    return Batch(base_offset, base_offset + len(records), 1, bytes(raw))


def image_at(offset: int, *, has_level: bool, says: bool = False) -> MetadataImage:
    levels = {METADATA_VERSION: FinalizedLevel(2, "0.3.0")} if has_level else {}
    return replace(EMPTY_IMAGE, offset=offset, levels=levels, brokers={1: BROKER} if says else {})


@pytest.fixture
def history() -> LevelHistory:
    return LevelHistory(())


def test_a_twentieth_of_the_plans_have_nodes_of_two_releases_and_the_others_stay_as_they_were() -> None:
    plans = [draw_plan(seed) for seed in range(400)]
    drawn = [plan for plan in plans if plan.levels is not None]
    assert 8 <= len(drawn) <= 30
    assert not any(DROPPED.intersection(fault.kind for fault in plan.faults) for plan in drawn)
    forced = [with_levels(plan, share=1.0) for plan in plans[:60]]
    assert {bool(plan.levels.old) for plan in forced if plan.levels is not None} == {True, False}


def test_nodes_are_rolled_and_levels_change_beside_kills_and_one_seed_is_one_story() -> None:
    kills = Fault(1.0, Kind.KILL, 0, 1, 0.5, 0.5), Fault(2.0, Kind.POWER, 1, 0, 0.5, 0.5)
    (plan,) = rolling(*kills, old=(1,), tellings=1)
    first, *others = (World(plan).run() for _ in range(usually(1, long=2)))
    assert not first.failures
    assert all(other.digest == first.digest for other in others)
    assert first.moves["levels rolled on"] > 0 and first.moves["levels raised"] > 0


def test_a_new_cluster_begins_with_the_newest_levels_and_can_be_rolled_back() -> None:
    plans = rolling(tellings=3, rolls_share=0.6)
    outcomes = [World(plan).run() for plan in usually(plans[1:2], long=plans)]  # the second one has both
    assert not any(outcome.failures for outcome in outcomes)
    assert sum(outcome.moves["levels lowered"] for outcome in outcomes) > 0
    assert sum(outcome.moves["levels rolled back"] for outcome in outcomes) > 0


# -- the oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [SAYING, FeatureLevelRecord("group.version", 0, "0.2.0")])
def test_a_record_above_the_level_is_found(history: LevelHistory, record: Record) -> None:
    history.extend([batch(0, TO_2, record)])
    assert history.version == 2
    history.extend([batch(2, TO_1)])
    assert history.version == 1 and history.lowered_at == 2
    with pytest.raises(Violated, match=r"I94.*above metadata.version 1"):
        history.extend([batch(3, record)])


def test_a_snapshot_without_the_level_or_with_more_than_it_allows_is_found(history: LevelHistory) -> None:
    history.extend([batch(0, TO_2, SAYING), batch(2, TO_1)])
    history.snapshot("node-0", image_at(1, has_level=True, says=True))
    history.snapshot("node-0", image_at(2, has_level=False))
    with pytest.raises(Violated, match=r"I94.*has the levels"):
        history.snapshot("node-0", image_at(1, has_level=False))
    with pytest.raises(Violated, match=r"I94.*that say levels"):
        history.snapshot("node-0", image_at(2, has_level=False, says=True))


def test_a_node_that_stopped_for_a_level_is_found() -> None:
    world = World(rolling(tellings=1)[0])
    world.machines[1].refusals.append(UnsupportedMetadataRecordError("metadata.version is 2"))
    assert [text[:4] for text in world.invariants.quorum.levels.stopped()] == ["I93:"]
