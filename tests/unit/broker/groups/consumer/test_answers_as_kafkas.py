"""The core answers heartbeats as Apache Kafka 4.3.1 did (`kafka_4_3_1.txt`).

Some differences are not in the scripts, on purpose:

- a pattern is resolved with the join, and not a moment later, so the first answer has its partitions already;
- a join whose answer was lost is answered again for a static member, too: Kafka says UNRELEASED_INSTANCE_ID;
- two answers that were lost in a row do not fence a member;
- another rack or assignor of a member makes a new epoch at once (KIP-848), as does a first member that reads nothing;
- a negative rebalance time-out is refused;
- targets are computed at once, where Kafka waits group.consumer.assignment.interval.ms; large ones wait here, too.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.consumer_scripts import OurCore, transcript

RECORDED = Path(__file__).with_name("kafka_4_3_1.txt")


def test_every_script_is_answered_as_by_kafka() -> None:
    assert transcript(OurCore()).splitlines() == RECORDED.read_text().splitlines()
