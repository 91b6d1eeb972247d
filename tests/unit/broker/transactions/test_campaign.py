"""Short pieces of the campaign of tests/support/transaction_campaign.py."""

from __future__ import annotations

from tests.support import transaction_campaign


def test_transactions_are_whole_and_decided_once_whatever_fails() -> None:
    ends = [transaction_campaign.run(seed, steps=400) for seed in range(30)]
    assert sum(committed for committed, _ in ends) > 100 and sum(aborted for _, aborted in ends) > 100
