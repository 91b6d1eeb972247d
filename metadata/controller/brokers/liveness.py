"""Decides from heartbeats, and from their absence, which broker is fenced, which one serves, and which one may stop.

A heartbeat also names the log dirs that have failed. The replicas in a dir that the metadata has online leave their
ISRs and lose their leaderships, and only those; the last member of an ISR stays (election.py). A failed dir is online
again with the next registration, when its replicas were named (KIP-858).

Which of its log dirs are cordoned, a heartbeat says too, and the metadata keeps it (metadata/cordon.py).

A heartbeat that changes nothing makes no record, so the log of an idle cluster does not grow. The table in
broker_state.py says what a heartbeat does; election.py says what a change of state does to partitions. I11 holds after
every single record: partitions are taken from a broker BEFORE it is fenced, and given to it AFTER it is unfenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metadata.controller.brokers.broker_state import TRANSITIONS, BrokerState, HeartbeatEvent, bits_of, state_of
from metadata.controller.context import DecisionContext
from metadata.controller.elections.broker_elections import (
    changes_when_dirs_fail,
    changes_when_joining,
    changes_when_leaving,
)
from metadata.controller.elections.election import changed
from metadata.controller.result import ControllerResult, TickResponse
from metadata.controller.sessions import STANDSTILL_SESSIONS
from metadata.cordon import cordon_record
from metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord, Record
from metadata.registrations import BrokerRegistration
from penstock.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError
from penstock.messages.nodes.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.types import NO_OFFSET

_FENCED_STATES = (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


def heartbeat(
    context: DecisionContext,
    request: BrokerHeartbeatRequest,
    now_ms: int,
    committed_offset: int = NO_OFFSET,
    silent_ms: int = 0,
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Keeps the broker's session, and changes its state if it asks for that or has caught up. `committed_offset` is
    that of the metadata, as far as this controller has it. The answer is a lease of what the broker leads
    (broker/quorum/lead_lease.py). `silent_ms`: another controller may have been elected that long ago."""
    context.check_cluster_id(request.cluster_id)
    broker = registered_broker(context, request.broker_id, request.broker_epoch)
    context.sessions.touch(broker.broker_id, now_ms, request.current_metadata_offset, committed_offset)
    context.sessions.calendars.note(broker.broker_id, request.calendar_ms, now_ms)
    is_caught_up = request.current_metadata_offset >= broker.broker_epoch
    is_caught_up = is_caught_up and not context.sessions.stands_still(broker.broker_id, now_ms)
    if failed := _newly_failed(broker, request):
        return _log_dirs_failed(context, broker, failed, is_caught_up, now_ms)
    before, moves = state_of(broker), _moves(context, broker, request)
    after = TRANSITIONS[before][_event(context, request, is_caught_up, moves)]
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=after in _FENCED_STATES,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
        offline_log_dirs=broker.offline_log_dirs,
        silent_ms=_silent_ms(context, broker.broker_id, now_ms, silent_ms),
        must_have_read=context.state.lost_leadership_at(broker.broker_id),
        session_timeout_ms=context.sessions.timeout_ms,
        **_calendar(context, broker.broker_id, now_ms),
    )
    cordons = cordon_record(broker, request.cordoned_log_dirs, context.state.configs)
    return ControllerResult((*cordons, *_records(context, broker, after, moves)), response)


def _silent_ms(context: DecisionContext, broker_id: int, now_ms: int, silent_ms: int) -> int:
    """No lease from one session BEFORE the broker is fenced because its metadata stands still: those before are over by
    then. It may read on at any moment, and stand still again before it has read that it was fenced."""
    is_near = context.sessions.stands_still(broker_id, now_ms, sessions=STANDSTILL_SESSIONS - 1)
    return context.sessions.timeout_ms if is_near else silent_ms


def _calendar(context: DecisionContext, broker_id: int, now_ms: int) -> dict[str, Any]:
    live, registered = context.sessions.live(now_ms), context.state.brokers
    verdict, off_ms = context.sessions.calendars.judge(broker_id, live, registered)
    return {"calendar": verdict, "calendar_off_ms": off_ms}


def settle_elrs(context: DecisionContext) -> ControllerResult[TickResponse]:
    """Empties the ELRs that this controller's own default of `min.insync.replicas` makes needless. It runs once, before
    the controller's first tick: the default is in the configuration of each controller, and may be lower in its own
    than in that of the one before."""
    partitions = context.state.partitions_with_elr()
    changes = (changed(partition, context.min_isr(partition)) for partition in partitions)
    return ControllerResult(tuple(change for change in changes if change is not None), TickResponse())


def tick(context: DecisionContext, now_ms: int) -> ControllerResult[TickResponse]:
    """Fences every broker whose session is over, or whose metadata stands still. Each partition has one election,
    without any of these brokers."""
    expired = context.sessions.expired(now_ms)
    silent = dict.fromkeys((*expired, *context.sessions.standing_still(now_ms)))
    fenced = tuple(broker_id for broker_id in silent if context.state.is_unfenced(broker_id))
    for broker_id in expired:
        if broker_id not in fenced:
            context.sessions.drop(broker_id)  # fenced already: nothing more can happen to it
    brokers = (context.state.brokers[broker_id] for broker_id in fenced)
    records: tuple[Record, ...] = (
        *changes_when_leaving(context, fenced),
        *(BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, fenced=True) for broker in brokers),
    )
    return ControllerResult(records, TickResponse(fenced))


def registered_broker(context: DecisionContext, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The broker, if the request has the epoch of its current registration."""
    broker = context.state.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"broker {broker_id} is not registered; it must register first")
    if broker.broker_epoch != broker_epoch:
        raise StaleBrokerEpochError(
            f"broker {broker_id} is registered with epoch {broker.broker_epoch}, the request is of epoch {broker_epoch}"
        )
    return broker


def _newly_failed(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> frozenset[str]:
    return frozenset(broker.log_dirs).intersection(request.offline_log_dirs).difference(broker.offline_log_dirs)


def _log_dirs_failed(
    context: DecisionContext, broker: BrokerRegistration, failed: frozenset[str], is_caught_up: bool, now_ms: int
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Nothing else is decided by this heartbeat; the next one is not far. It has the verdict over the calendar all the
    same: a broker that is told none believes its own."""
    offline = tuple(sorted(failed.union(broker.offline_log_dirs)))
    change = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, offline_log_dirs=offline)
    state = state_of(broker)
    response = BrokerHeartbeatResponse(
        is_caught_up,
        state in _FENCED_STATES,
        state is BrokerState.SHUTDOWN_NOW,
        offline_log_dirs=offline,
        silent_ms=context.sessions.timeout_ms,  # no lease: this decision takes leaderships from the broker
        session_timeout_ms=context.sessions.timeout_ms,
        **_calendar(context, broker.broker_id, now_ms),
    )
    return ControllerResult((*changes_when_dirs_fail(context, broker.broker_id, failed), change), response)


def _moves(
    context: DecisionContext, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> list[PartitionChangeRecord]:
    """The changes by which a broker that wants to stop can still hand leaderships over."""
    if not request.want_shut_down or broker.fenced:
        return []
    return changes_when_leaving(context, (broker.broker_id,), only_if_led=True)


def _event(
    context: DecisionContext, request: BrokerHeartbeatRequest, is_caught_up: bool, moves: Sequence[Record]
) -> HeartbeatEvent:
    if request.want_shut_down:
        may_stop = request.want_fence or (not moves and _successors_know(context, request.broker_id))
        return HeartbeatEvent.MAY_STOP if may_stop else HeartbeatEvent.WANTS_STOP
    if request.want_fence:
        return HeartbeatEvent.WANTS_FENCE
    return HeartbeatEvent.RUNS if is_caught_up else HeartbeatEvent.LAGS


def _successors_know(context: DecisionContext, broker_id: int) -> bool:
    """True if every other active broker has read that it leads now the partitions that this one led."""
    others = (broker.broker_id for broker in context.state.active_brokers() if broker.broker_id != broker_id)
    return context.sessions.have_all_read(others, context.state.lost_leadership_at(broker_id))


def _records(
    context: DecisionContext, broker: BrokerRegistration, after: BrokerState, moves: Sequence[PartitionChangeRecord]
) -> tuple[Record, ...]:
    """The records of a change of state; none when nothing changes."""
    fenced, in_controlled_shutdown = bits_of(after)
    change = BrokerRegistrationChangeRecord(
        broker.broker_id,
        broker.broker_epoch,
        fenced=fenced if fenced != broker.fenced else None,
        in_controlled_shutdown=in_controlled_shutdown
        if in_controlled_shutdown != broker.in_controlled_shutdown
        else None,
    )
    changes = (change,) if change.fenced is not None or change.in_controlled_shutdown is not None else ()
    if fenced and not broker.fenced:
        return (*changes_when_leaving(context, (broker.broker_id,)), *changes)
    if broker.fenced and not fenced:
        return (*changes, *changes_when_joining(context, broker.broker_id))
    return (*moves, *changes)
