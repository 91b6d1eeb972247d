"""The core answers the scripts of transactional producers as Apache Kafka 4.3.1 did (`kafka_4_3_1.txt`).

One script is not among those that must be equal, on purpose: a producer of version 2 that a newer one has fenced is
fenced at once here. Kafka takes its abort, and it opens another transaction, which the newer one must abort again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transaction_script_core import OurTransactions
from tests.support.transaction_scripts import SCRIPTS, transcript

RECORDED = Path(__file__).with_name("kafka_4_3_1.txt")
DIFFERENT = "version 2 is fenced by a newer producer"


def recorded(name: str) -> list[str]:
    lines = RECORDED.read_text().splitlines()
    first = lines.index(f"== {name}")
    return lines[first : lines.index("", first) + 1]


@pytest.mark.parametrize("fails_over", [False, True])
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != DIFFERENT])
def test_a_script_is_answered_as_by_kafka(name: str, fails_over: bool) -> None:
    """With a failover after every request too: no answer depends on what the log does not have."""
    assert list(transcript(OurTransactions(fails_over), [name])) == recorded(name)


def test_a_producer_that_is_fenced_opens_no_other_transaction() -> None:
    ours, kafkas = list(transcript(OurTransactions(), [DIFFERENT])), recorded(DIFFERENT)
    assert ours[:7] == kafkas[:7]  # until the newer producer has come
    assert ours[7:] == [
        "a end commit v2",
        "  PRODUCER_FENCED | CompleteAbort epoch 1",
        "a end abort v2",
        "  PRODUCER_FENCED | CompleteAbort epoch 1",
        "a add orders-0 v2",
        "  orders-0=PRODUCER_FENCED | CompleteAbort epoch 1",
        "b init",
        "  NONE id1 epoch 2 | Empty epoch 2",
        "a init named=a",
        "  PRODUCER_FENCED | Empty epoch 2",
        "b add orders-0 v2",
        "  orders-0=NONE | Ongoing epoch 2 orders-0",
        "b end commit v2",
        "  NONE id1 epoch 3 | CompleteCommit epoch 3",
        "",
    ]
