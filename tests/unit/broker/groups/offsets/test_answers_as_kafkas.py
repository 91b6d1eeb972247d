"""The core answers the scripts of offsets that transactions commit as Apache Kafka 4.3.1 did (`kafka_4_3_1.txt`).

One difference is not in them, on purpose: a group that had nothing but offsets of a transaction that was aborted is
gone at once here, and with the next look at expired offsets there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.txn_offset_core import OurCore
from tests.support.txn_offset_scripts import SCRIPTS, transcript

RECORDED = Path(__file__).with_name("kafka_4_3_1.txt")


def test_every_script_is_answered_as_by_kafka() -> None:
    assert transcript(OurCore()).splitlines() == RECORDED.read_text().splitlines()


@pytest.mark.parametrize("name", [name for name in SCRIPTS if "classic" not in name])
def test_nothing_changes_if_another_broker_leads_before_each_request(name: str) -> None:
    """A classic group whose members have no assignment yet stands in no record."""
    lines = transcript(OurCore(reloads=True), [name]).splitlines()
    recorded = RECORDED.read_text().splitlines()
    begin = recorded.index(f"== {name}")
    assert lines == recorded[begin : begin + len(lines)]
