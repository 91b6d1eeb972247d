"""A replica whose records are all deleted begins where it ends, and so it equals one that has deleted fewer of them."""

from __future__ import annotations

from penstock.record.builder import build_batch
from tests.simulation.cluster.plan import TopicKind
from tests.simulation.cluster.replicas import Replica, are_equal


def test_each_broker_deletes_old_records_in_its_own_time() -> None:
    batches = build_batch([b"v"], timestamps_ms=1)
    everything, nothing = Replica(batches, 0), Replica(b"", 1)
    assert are_equal([everything, nothing], TopicKind.RETAINED)
    assert not are_equal([everything, nothing], TopicKind.PLAIN)
    assert not are_equal([everything, Replica(b"", 0)], TopicKind.RETAINED), "what is kept must be there"
