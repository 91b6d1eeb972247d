"""The core answers the scripts of classic members as Apache Kafka 4.3.1 did (`kafka_4_3_1.txt`).

One difference is not in them, on purpose: a first member that is refused leaves an empty group there, and none here.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.classic_script_core import OurCore
from tests.support.classic_transcript import transcript

RECORDED = Path(__file__).with_name("kafka_4_3_1.txt")


def test_every_script_is_answered_as_by_kafka() -> None:
    assert transcript(OurCore()).splitlines() == RECORDED.read_text().splitlines()
