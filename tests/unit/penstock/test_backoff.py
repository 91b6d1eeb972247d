"""Back-off grows to its ceiling, and clients that failed together do not come back together."""

from __future__ import annotations

from random import Random

from penstock.backoff import Backoff


def test_waits_double_up_to_the_ceiling() -> None:
    backoff = Backoff(100, 1_000, Random(0))
    waits = [backoff.wait_ms(attempt) for attempt in range(1, 12)]
    assert all(full * 4 // 5 <= wait <= full for wait, full in zip(waits, [100, 200, 400, 800, 1000], strict=False))
    assert max(waits) <= 1_000
    assert backoff.wait_ms(10_000) <= 1_000


def test_clients_that_failed_together_do_not_all_come_back_together() -> None:
    waits = {Backoff(1_000, 1_000, Random(client)).wait_ms(1) for client in range(20)}
    assert len(waits) > 10


def test_no_back_off_is_no_wait() -> None:
    assert Backoff(0, 1_000, Random(0)).wait_ms(5) == 0
