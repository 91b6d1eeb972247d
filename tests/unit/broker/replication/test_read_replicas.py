"""A leader names only a follower that is in sync for certain, in service, reachable, and heard lately."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.replication.leader.leader_state import LeaderState
from broker.replication.leader.read_replica import ReadingClient
from broker.replication.partition import Partition
from penstock.types import CLIENT_LISTENER
from tests.support.partitions import batch, flush, make_partition, state
from tests.support.readers import QUORUM_SILENCE_MS, SILENCE_MS, RackedBroker, broker, leaders_alone

READER = ReadingClient("b", CLIENT_LISTENER)


class Lead:
    """Broker 1 in rack a leads with ten committed records, which 2 in rack b and 3 in rack c have, too."""

    def __init__(self, path: Path) -> None:
        self.racks = RackedBroker("a", {1: "a", 2: "b", 3: "c"})
        self.partition: Partition = make_partition(path)
        self.partition.become_leader(state(), 0)
        self.partition.append_as_leader(batch(*[b"v"] * 10), -1, 0, 1_700_000_000_000)
        flush(self.partition)
        for follower in (2, 3):
            self.racks.contacts.fetched(follower, True)
            self.leading.note_fetch(follower, 100 + follower, 10, 10, 0)
            self.leading.followers[follower].log_start_offset = 0
        self.partition.maybe_advance_high_watermark()
        assert self.partition.high_watermark == 10

    @property
    def leading(self) -> LeaderState:
        assert self.partition.leading is not None
        return self.partition.leading

    def named(self, offset: int = 5, reader: ReadingClient = READER) -> int:
        return self.racks.readers.preferred(reader, self.partition, self.leading, offset)


def test_the_follower_in_the_consumers_rack_is_named_and_hears_of_high_watermarks_at_once(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    assert not lead.leading.has_readers_elsewhere
    assert lead.named() == 2
    assert lead.leading.has_readers_elsewhere


@pytest.mark.parametrize("offset", [-1, 11])
def test_for_an_offset_that_the_leader_does_not_serve_nobody_is_named(tmp_path: Path, offset: int) -> None:
    assert Lead(tmp_path).named(offset) == -1


@pytest.mark.parametrize("change", ["fenced", "in_controlled_shutdown"])
def test_a_broker_that_is_not_in_service_is_not_named(tmp_path: Path, change: str) -> None:
    lead = Lead(tmp_path)
    lead.racks.brokers[2] = broker(2, "b", **{change: True})
    assert lead.named() == -1
    del lead.racks.brokers[2]
    assert lead.named() == -1


def test_a_broker_without_the_consumers_listener_is_not_named(tmp_path: Path) -> None:
    assert Lead(tmp_path).named(reader=ReadingClient("b", "KAFKA")) == -1


def test_a_follower_that_left_the_isr_or_is_about_to_is_not_named(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    lead.partition.append_as_leader(batch(b"v"), -1, 0, 1_700_000_000_000)
    lead.leading.note_fetch(3, 103, 11, 11, 20_000)
    proposed = lead.leading.propose_shrink(11, 101, 20_000, 10_000)
    assert proposed is not None and proposed.ids == {1, 3}
    assert lead.named() == -1
    lead.leading.reject_proposal(proposed)
    assert lead.named() == 2
    lead.leading.commit_isr((1, 3), 1)
    assert lead.named() == -1


def test_a_follower_that_has_not_fetched_lately_is_not_named(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    lead.racks.clock.advance(SILENCE_MS)
    assert lead.named() == 2
    lead.racks.clock.advance(1)
    assert lead.named() == -1


def test_a_follower_that_does_not_say_that_it_serves_consumers_is_not_named(tmp_path: Path) -> None:
    """One of an older release, or without the key: a client of Kafka would be sent to and fro for ever."""
    lead = Lead(tmp_path)
    lead.racks.contacts.fetched(2)
    assert lead.named() == -1
    lead.racks.contacts.fetched(2, True)
    assert lead.named() == 2


def test_a_broker_that_does_not_hear_from_the_quorum_names_nobody_and_serves_nobody(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    lead.racks.quorum_silent_ms = QUORUM_SILENCE_MS
    assert lead.named() == 2 and lead.racks.readers.serves(READER)
    lead.racks.quorum_silent_ms += 1
    assert lead.named() == -1 and not lead.racks.readers.serves(READER)


def test_without_the_key_consumers_read_from_leaders_alone(tmp_path: Path) -> None:
    lead, readers = Lead(tmp_path), leaders_alone()
    assert readers.preferred(READER, lead.partition, lead.leading, 5) == -1
    assert not readers.serves(READER)


def test_bytes_are_counted_by_role_and_across_racks() -> None:
    readers = RackedBroker("a", {}).readers
    readers.count(ReadingClient("a"), 10, is_followed=True, is_sent_away=False)
    readers.count(ReadingClient("b"), 5, is_followed=False, is_sent_away=False)
    readers.count(ReadingClient(""), 3, is_followed=False, is_sent_away=True)
    statistics = readers.statistics()
    assert (statistics.follower_bytes_out, statistics.cross_rack_bytes_out, statistics.readers_sent_away) == (10, 5, 1)
