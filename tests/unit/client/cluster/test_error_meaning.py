"""Errors say whether metadata is doubtful and whether a write may have happened."""

from __future__ import annotations

from penstock.client.cluster.error_meaning import needs_metadata, outcome_unknown
from penstock.errors import (
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)


def test_errors_are_told_apart() -> None:
    assert needs_metadata(NotLeaderOrFollowerError()) and needs_metadata(NetworkError())
    assert not needs_metadata(NotEnoughReplicasError())
    assert outcome_unknown(NetworkError()) and outcome_unknown(RequestTimedOutError())
    assert not outcome_unknown(NotLeaderOrFollowerError())


def test_after_a_disk_error_another_may_lead_and_the_write_may_stand() -> None:
    assert needs_metadata(KafkaStorageError()) and outcome_unknown(KafkaStorageError())
