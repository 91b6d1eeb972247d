"""A host's nodes live as a service of systemd would: started, watched, started again, given up."""

from __future__ import annotations

from broker.host.host_core import (
    RESTART_MS,
    START_MS,
    STARTS_MAX,
    STARTS_WITHIN_MS,
    STOP_MS,
    WATCHDOG_MS,
    Effect,
    HostCore,
    NodeState,
    ProcessAct,
)


def acts(effects: list[Effect]) -> list[tuple[int, ProcessAct | None]]:
    return [(effect.node_id, effect.act) for effect in effects]


def running(*node_ids: int) -> HostCore:
    core = HostCore(node_ids)
    core.start_all(0)
    for node_id in node_ids:
        core.heard(node_id, "READY=1", 0)
    return core


def test_all_start_at_once_and_each_is_in_service_when_it_says_so() -> None:
    core = HostCore([1, 2])
    assert acts(core.start_all(0)) == [(1, ProcessAct.SPAWN), (2, ProcessAct.SPAWN)]
    core.heard(1, "READY=1", 5)
    assert core.state_of(1) is NodeState.RUNNING and core.state_of(2) is NodeState.STARTING and not core.is_settled
    core.heard(2, "READY=1", 6)
    assert core.is_settled and core.count(NodeState.RUNNING) == 2


def test_a_node_that_dies_comes_again_after_a_moment_and_the_others_go_on() -> None:
    core = running(1, 2)
    assert acts(core.ended(1, -9, 100)) == [(1, None)] and core.state_of(1) is NodeState.WAITING
    assert core.tick(100 + RESTART_MS - 1) == []
    assert acts(core.tick(100 + RESTART_MS)) == [(1, ProcessAct.SPAWN)]
    assert core.restarts_of(1) == 1 and core.restarts_of(2) == 0 and core.last_end_of(1) == "signal 9"


def test_one_that_dies_too_often_is_left_for_a_person_until_asked() -> None:
    core = running(1)
    now = 0
    for _ in range(STARTS_MAX - 1):
        core.ended(1, 1, now)
        now += RESTART_MS
        assert acts(core.tick(now)) == [(1, ProcessAct.SPAWN)]
    core.ended(1, 1, now)
    assert core.state_of(1) is NodeState.FAILED and core.next_deadline_ms is None
    assert acts(core.restart(1, now)) == [(1, ProcessAct.SPAWN)]
    core.ended(1, 1, now + 1)
    assert core.state_of(1) is NodeState.WAITING, "what was before counts no more"


def test_deaths_that_are_far_apart_count_for_nothing() -> None:
    core = running(1)
    for time in range(3 * STARTS_MAX):
        now = time * STARTS_WITHIN_MS // 2
        core.ended(1, 1, now)
        assert acts(core.tick(now + RESTART_MS)) == [(1, ProcessAct.SPAWN)]


def test_one_that_is_refused_is_not_tried_again_and_stops_no_other() -> None:
    core = running(1, 2)
    core.ended(1, 2, 50)
    assert core.state_of(1) is NodeState.REFUSED and core.tick(10**9)[0].node_id == 2
    assert acts(core.restart(1, 60)) == [(1, ProcessAct.SPAWN)]


def test_one_that_somebody_ended_in_order_stays_so() -> None:
    core = running(1)
    core.ended(1, 0, 50)
    assert core.state_of(1) is NodeState.STOPPED and core.tick(10**9) == []


def test_a_loop_that_stands_still_is_aborted_then_killed_and_the_node_comes_again() -> None:
    core = running(1)
    core.heard(1, "WATCHDOG=1", 10_000)
    assert core.tick(10_000 + WATCHDOG_MS - 1) == []
    now = 10_000 + WATCHDOG_MS
    assert acts(core.tick(now)) == [(1, ProcessAct.ABORT)]
    assert acts(core.tick(now + STOP_MS)) == [(1, ProcessAct.KILL)]
    core.ended(1, -9, now + STOP_MS + 1)
    assert core.state_of(1) is NodeState.WAITING


def test_a_start_and_a_stop_may_take_as_long_as_they_get_on() -> None:
    core = HostCore([1])
    core.start_all(0)
    core.heard(1, "EXTEND_TIMEOUT_USEC=60000000", START_MS - 1)
    assert core.tick(START_MS) == []
    assert acts(core.tick(START_MS - 1 + 60_000)) == [(1, ProcessAct.KILL)]
    core = running(1)
    assert acts(core.stop(1, 0)) == [(1, ProcessAct.TERMINATE)]
    for wrong in ("EXTEND_TIMEOUT_USEC=", "EXTEND_TIMEOUT_USEC=-5", "EXTEND_TIMEOUT_USEC=x", "", "READY=1"):
        assert core.heard(1, wrong, STOP_MS - 1) == [] and core.state_of(1) is NodeState.STOPPING
    assert acts(core.tick(STOP_MS)) == [(1, ProcessAct.KILL)]


def test_a_restart_waits_for_the_end_of_the_process_and_begins_once() -> None:
    core = running(1)
    assert acts(core.restart(1, 10)) == [(1, ProcessAct.TERMINATE)]
    assert core.restart(1, 11) == [], "asked twice"
    assert acts(core.ended(1, 0, 20)) == [(1, ProcessAct.SPAWN)]
    assert core.restarts_of(1) == 0 and core.state_of(1) is NodeState.STARTING


def test_a_restart_goes_on_after_a_stop_that_failed() -> None:
    core = running(1)
    core.restart(1, 10)
    assert acts(core.ended(1, 1, 20)) == [(1, ProcessAct.SPAWN)]


def test_the_last_word_counts_while_a_node_stops() -> None:
    core = running(1)
    core.restart(1, 10)
    core.stop(1, 11)
    core.ended(1, 0, 20)
    assert core.state_of(1) is NodeState.STOPPED
    core = running(1)
    core.stop(1, 10)
    core.restart(1, 11)
    assert acts(core.ended(1, 0, 20)) == [(1, ProcessAct.SPAWN)]


def test_a_stop_ends_the_waiting_for_a_start() -> None:
    core = running(1)
    core.ended(1, 1, 10)
    assert core.stop(1, 11) == [] and core.tick(10**9) == []


def test_the_host_is_over_when_all_have_ended_and_none_comes_back() -> None:
    core = running(1, 2, 3)
    core.ended(3, 1, 5)
    assert acts(core.stop_all(10)) == [(1, ProcessAct.TERMINATE), (2, ProcessAct.TERMINATE)]
    assert core.restart(1, 11) == [] and not core.is_over
    core.ended(1, 0, 20)
    core.ended(2, -9, 21)
    assert core.is_over and core.tick(10**9) == []
