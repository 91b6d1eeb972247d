"""Promises of the lease by which a broker answers for what it leads."""

from __future__ import annotations

from broker.quorum.lead_lease import MARGIN, Grant, LeadLease

SESSION_MS = 9_000
SURE_MS = SESSION_MS - SESSION_MS // MARGIN


class Bench:
    """A lease, the time of its machine, and how far its metadata is acted on."""

    def __init__(self) -> None:
        self.now_ms, self.read = 100_000, 50
        self.lease = LeadLease(SESSION_MS, lambda: self.now_ms, lambda: self.read)

    def grant(
        self, *, sent_ms: int, silent_ms: int = 0, must_have_read: int = 50, session_ms: int = SESSION_MS
    ) -> None:
        self.lease.granted(Grant(sent_ms, silent_ms, must_have_read, session_ms))

    def left_ms(self) -> int:
        """How long the lease is held from now on, if nothing else comes."""
        begin_ms, self.now_ms = self.now_ms, self.now_ms
        while self.lease.is_held():
            self.now_ms += 1
        left, self.now_ms = self.now_ms - begin_ms, begin_ms
        return left


def test_no_answer_no_lease() -> None:
    assert not Bench().lease.is_held()


def test_a_lease_is_counted_from_when_the_heartbeat_was_sent_and_is_shorter_than_the_session() -> None:
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms - 4_000)
    assert bench.left_ms() == SURE_MS - 4_000 < SESSION_MS - 4_000


def test_a_controller_that_had_not_heard_from_a_majority_grants_so_much_less() -> None:
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms, silent_ms=3_000)
    assert bench.left_ms() == SURE_MS - 3_000
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms, silent_ms=SESSION_MS)
    assert not bench.lease.is_held()


def test_the_shorter_session_counts_where_the_controller_has_another() -> None:
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms, session_ms=5_000)
    assert bench.left_ms() == 5_000 - 5_000 // MARGIN
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms, session_ms=60_000)
    assert bench.left_ms() == SURE_MS
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms, session_ms=0)
    assert bench.left_ms() == SURE_MS, "an older controller does not say"


def test_a_broker_that_has_not_read_that_it_lost_a_leadership_has_no_new_lease() -> None:
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms, must_have_read=50)
    bench.now_ms += 2_000
    bench.grant(sent_ms=bench.now_ms, must_have_read=51)
    assert bench.left_ms() == SURE_MS - 2_000, "the one before the loss is good: nobody commits before it is over"
    bench.read = 51
    assert bench.left_ms() == SURE_MS


def test_a_slow_broker_that_loses_one_leadership_after_the_other_keeps_its_lease() -> None:
    """Its metadata is 3 s behind, and each heartbeat finds one leadership less."""
    bench, losses = Bench(), {}
    for at_ms in range(0, 60_000, 1_000):
        if at_ms % 2_000 == 0:
            losses[at_ms] = 51 + at_ms
            bench.grant(sent_ms=bench.now_ms, must_have_read=losses[at_ms])
        bench.read = losses.get(at_ms - 3_000, bench.read)
        assert bench.lease.is_held() == (at_ms >= 3_000), at_ms
        bench.now_ms += 1_000


def test_grants_that_wait_are_few() -> None:
    bench = Bench()
    for offset in range(1_000):
        bench.grant(sent_ms=bench.now_ms, must_have_read=51 + offset)
    assert len(repr(bench.lease)) < 3_000
    bench.read = 2_000
    assert bench.lease.is_held()


def test_an_answer_that_comes_late_does_not_shorten_a_lease() -> None:
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms)
    bench.grant(sent_ms=bench.now_ms - 5_000)
    assert bench.left_ms() == SURE_MS


def test_a_lease_that_is_given_up_is_over_at_once_and_so_is_one_that_waits() -> None:
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms)
    bench.grant(sent_ms=bench.now_ms, must_have_read=60)
    bench.lease.give_up()
    bench.read = 60
    assert not bench.lease.is_held()
    bench.grant(sent_ms=bench.now_ms)
    assert bench.lease.is_held()


def test_a_machine_that_slept_through_its_lease_has_none_when_it_wakes() -> None:
    """The clock is the machine's, which goes on while it sleeps."""
    bench = Bench()
    bench.grant(sent_ms=bench.now_ms)
    bench.now_ms += SESSION_MS
    assert not bench.lease.is_held()
