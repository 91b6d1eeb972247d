"""Where consumers read, in tests of one broker: from leaders alone, or from replicas in their racks."""

from __future__ import annotations

from collections.abc import Mapping

from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.read_replicas import ReadReplicaLimits, ReadReplicas
from metadata.registrations import BrokerRegistration
from penstock.clock import ManualClock

SILENCE_MS = 1_500
QUORUM_SILENCE_MS = 3_000


def leaders_alone() -> ReadReplicas:
    """`replica.selector.class` is not set."""
    return ReadReplicas("", lambda broker_id: None, contacts(ManualClock()), lambda: 0, None)


def contacts(clock: ManualClock, broker_id: int = 1) -> FollowerContacts:
    """The fetches of followers that a leader has heard: none yet."""
    return FollowerContacts(broker_id, clock.now_ms, 10_000)


def broker(broker_id: int, rack: str, **changes: object) -> BrokerRegistration:
    """A registered broker in service."""
    fields: dict[str, object] = {
        "broker_id": broker_id,
        "incarnation_id": "i",
        "broker_epoch": 100 + broker_id,
        "host": f"host-{broker_id}",
        "port": 9192,
        "rack": rack,
        "fenced": False,
        "in_controlled_shutdown": False,
        "log_dirs": ("d",),
    }
    return BrokerRegistration(**{**fields, **changes})  # type: ignore[arg-type]


class RackedBroker:
    """Broker 1 with `replica.selector.class`, the other brokers' racks, and what it has heard."""

    def __init__(self, rack: str, racks: Mapping[int, str]) -> None:
        self.clock = ManualClock()
        self.brokers = {broker_id: broker(broker_id, name) for broker_id, name in racks.items()}
        self.contacts = contacts(self.clock)
        self.quorum_silent_ms = 0
        self.readers = ReadReplicas(
            rack,
            self.brokers.get,
            self.contacts,
            lambda: self.quorum_silent_ms,
            ReadReplicaLimits(follower_silence_ms=SILENCE_MS, quorum_silence_ms=QUORUM_SILENCE_MS),
        )
