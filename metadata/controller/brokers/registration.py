"""Decides whether a broker process may join, and what changes for the partitions that its broker had before.

A process is known by its incarnation id. A registration is known by its broker epoch: the offset of its record, so no
epoch is given twice. A new process of a known broker always leaves every ISR that has another member: it starts fenced,
and no fenced broker is in such an ISR (I11). So a replica that lost its unsynced tail cannot count as in sync by
restarting quickly (Redpanda, "why fsync"; KIP-966). The last member of an ISR stays in it, because its log holds the
acked records. It stays in an ELR if its log is whole (eligibility.py). log_dirs.py decides about changed log dirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from metadata.controller.brokers.broker_state import BrokerState, state_of
from metadata.controller.brokers.eligibility import doubts_about, ended_cleanly
from metadata.controller.brokers.log_dirs import (
    changes_of_last_copies,
    check_replica_count,
    check_replica_dirs,
    dead_log_dirs,
    log_dirs_after,
    with_directories,
)
from metadata.controller.context import DecisionContext
from metadata.controller.elections.broker_elections import changes_when_dirs_fail, changes_when_leaving
from metadata.controller.features import check_levels_of
from metadata.controller.result import ControllerResult
from metadata.features import LEVELS_ARE_RECORDS, METADATA_VERSION
from metadata.listeners import CLIENT_LISTENERS_MAX, NAME_LENGTH_MAX, RESERVED, is_listener_name, survives_a_record
from metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from metadata.registrations import BrokerRegistration
from penstock.errors import (
    DuplicateBrokerRegistrationError,
    InvalidRegistrationError,
    InvalidRequestError,
    ResourceExhaustedError,
)
from penstock.messages.nodes.brokers import RegisterBrokerRequest, RegisterBrokerResponse
from penstock.types import Endpoint, ListenerEndpoint

MAX_TEXT_LENGTH: Final = 255
"""Limit for a host name (RFC 1035), the ids and the rack."""
MAX_LOG_DIRS: Final = 128
_PORTS: Final = range(1, 65_536)
_INT32_MAX: Final = (1 << 31) - 1
_FLUSH_POLICIES: Final = ("", "fsync", "os")

Result = ControllerResult[RegisterBrokerResponse]


class _ControllerPart(NamedTuple):
    """The part of a registration that is the controller's own."""

    fenced: bool = True
    in_controlled_shutdown: bool = False
    offline_log_dirs: tuple[str, ...] = ()


_NEW: Final = _ControllerPart()


def register_broker(
    context: DecisionContext, request: RegisterBrokerRequest, now_ms: int, next_offset: int, unheard_from: int | None
) -> Result:
    """Registers the process; `next_offset` is where the first record of the result will stand in the log. No process
    of the broker before it was sent a record at `unheard_from` or behind, where that is known."""
    context.check_cluster_id(request.cluster_id)
    _check_request(request)
    check_levels_of(context, request)
    check_replica_count(context, request)
    check_replica_dirs(request)
    _check_log_dirs_are_its_own(context, request)
    existing = context.state.brokers.get(request.broker_id)
    if existing is None:
        result = _register(context, request, next_offset)
    elif existing.incarnation_id == request.incarnation_id:
        result = _register_again(context, existing, request, next_offset)
    else:
        _check_predecessor_is_gone(context, existing, request, now_ms)
        result = _register_successor(context, existing, request, next_offset, unheard_from)
    context.sessions.touch(request.broker_id, now_ms)
    return result


def _register(context: DecisionContext, request: RegisterBrokerRequest, next_offset: int) -> Result:
    if request.lost_log_dirs:
        raise InvalidRegistrationError(
            f"broker {request.broker_id} gives up log dir {', '.join(request.lost_log_dirs)}, but no log dir of it is"
            " registered: it is new. Start it without --lost-log-dirs"
        )
    if len(context.state.brokers) >= context.config.max_brokers:
        raise ResourceExhaustedError(
            f"broker {request.broker_id} cannot join: {context.config.max_brokers} brokers are registered, the most"
            " that are allowed"
        )
    _check_listener_names(context, request)
    changes = with_directories(context, None, request)
    return _result(changes, _record(context, request, request.log_dirs, next_offset + len(changes)))


def _register_again(
    context: DecisionContext, existing: BrokerRegistration, request: RegisterBrokerRequest, next_offset: int
) -> Result:
    """The answer to a process that registers again: the first answer was lost, or its endpoint has changed. It stays
    fenced or unfenced."""
    log_dirs = log_dirs_after(existing, request)
    if set(log_dirs) != set(existing.log_dirs):
        known = ", ".join(existing.log_dirs) or "(none)"
        raise InvalidRegistrationError(
            f"broker {request.broker_id} runs with log dirs {known}, which change only with a new process"
        )
    failed = dead_log_dirs(existing, request).difference(existing.offline_log_dirs)
    offline = tuple(sorted(failed.union(existing.offline_log_dirs)))
    own_part = _ControllerPart(existing.fenced, existing.in_controlled_shutdown, offline)
    leaving = changes_when_dirs_fail(context, existing.broker_id, failed) if failed else ()
    changes = with_directories(context, existing, request, leaving)
    if not changes and _record(context, request, log_dirs, existing.broker_epoch, own_part) == existing.to_record():
        return ControllerResult((), RegisterBrokerResponse(existing.broker_epoch))
    return _result(changes, _record(context, request, log_dirs, next_offset + len(changes), own_part))


def _register_successor(
    context: DecisionContext,
    existing: BrokerRegistration,
    request: RegisterBrokerRequest,
    next_offset: int,
    unheard_from: int | None,
) -> Result:
    """A new process of a known broker. Partitions change BEFORE the registration, so that I11 holds at every record."""
    log_dirs = log_dirs_after(existing, request)
    leaving = changes_when_leaving(context, (request.broker_id,), doubts=doubts_about(context, existing, request))
    marked = changes_of_last_copies(context, existing, request, leaving, unheard_from)
    changes = with_directories(context, existing, request, marked)
    unknown = tuple(sorted(set(request.lost_log_dirs).difference(existing.log_dirs)))
    own_part = _ControllerPart(offline_log_dirs=tuple(sorted(dead_log_dirs(existing, request))))
    return _result(changes, _record(context, request, log_dirs, next_offset + len(changes), own_part), unknown)


def _check_predecessor_is_gone(
    context: DecisionContext, existing: BrokerRegistration, request: RegisterBrokerRequest, now_ms: int
) -> None:
    """Two processes with one id would both append; the second waits until the first is known to be gone."""
    gone = (
        not context.sessions.is_live(existing.broker_id, now_ms)
        or state_of(existing) is BrokerState.SHUTDOWN_NOW
        or ended_cleanly(existing, request)
    )
    if not gone:
        raise DuplicateBrokerRegistrationError(
            f"broker {request.broker_id} is registered by another process, at {existing.endpoint}, that was heard of"
            f" within {context.config.session_timeout_ms} ms. If that process has crashed, this one is let in after"
            " that time; if it runs, give one of them another node.id"
        )


def _check_request(request: RegisterBrokerRequest) -> None:
    """Each field by itself, without the cluster's state."""
    if not 0 <= request.broker_id <= _INT32_MAX:
        raise InvalidRequestError(f"broker id {request.broker_id} is not from 0 to {_INT32_MAX}")
    host, port = request.inter_broker_host, request.inter_broker_port
    _check_endpoint(request.broker_id, request.host, request.port)
    if host or port:
        _check_endpoint(request.broker_id, host, port)
    _check_listeners(request)
    texts = {"incarnation id": request.incarnation_id, "rack": request.rack}
    texts.update((f"log dir {at}", log_dir) for at, log_dir in enumerate(request.log_dirs[: MAX_LOG_DIRS + 1]))
    for what, text in texts.items():
        if len(text) > MAX_TEXT_LENGTH or not text.isprintable() or (not text and what != "rack"):
            raise InvalidRequestError(
                f"broker {request.broker_id}: {what} must have from 1 to {MAX_TEXT_LENGTH} printable characters"
            )
    if request.flush_policy not in _FLUSH_POLICIES:
        raise InvalidRequestError(f"broker {request.broker_id}: flush.policy must be one of {_FLUSH_POLICIES[1:]}")
    too_many = max(len(request.log_dirs), len(request.lost_log_dirs), request.failed_log_dirs) > MAX_LOG_DIRS
    if too_many or len(set(request.log_dirs)) < len(request.log_dirs) or request.failed_log_dirs < 0:
        raise InvalidRequestError(
            f"broker {request.broker_id} must have at most {MAX_LOG_DIRS} log dirs, each with an id of its own"
        )


def _check_endpoint(broker_id: int, host: str, port: int) -> None:
    if not 1 <= len(host) <= MAX_TEXT_LENGTH or not host.isprintable():
        raise InvalidRequestError(
            f"broker {broker_id}: host must have from 1 to {MAX_TEXT_LENGTH} printable characters"
        )
    if Endpoint(host, port).is_every_address or " " in host:
        raise InvalidRequestError(
            f"broker {broker_id} advertises {host!r}, which nobody can connect to; set advertised.listeners to its"
            " address"
        )
    if port not in _PORTS:
        raise InvalidRequestError(f"broker {broker_id} advertises port {port}; ports are 1 to 65535")


def _check_listeners(request: RegisterBrokerRequest) -> None:
    """Refuses bad listeners for clients besides BROKER."""
    names = [listener.name for listener in request.listeners]
    if len(names) >= CLIENT_LISTENERS_MAX:
        raise InvalidRequestError(
            f"broker {request.broker_id} has {len(names) + 1} listeners for clients; at most {CLIENT_LISTENERS_MAX} are"
            " allowed"
        )
    taken = (*RESERVED, request.inter_broker_listener)
    for name, endpoint in request.listeners:
        _check_endpoint(request.broker_id, *endpoint)
        wrong = not is_listener_name(name) or not survives_a_record(ListenerEndpoint(name, endpoint))
        if wrong or name in taken or names.count(name) > 1:
            raise InvalidRequestError(
                f"broker {request.broker_id}: {name[:NAME_LENGTH_MAX]!r} is not the name of one more listener for"
                " clients; give each a name of its own in capitals"
            )


def _check_listener_names(context: DecisionContext, request: RegisterBrokerRequest) -> None:
    """A name of a listener for clients means that on every broker. Checked of a new broker only: one that has replicas
    is not kept out for this. Its clients at that listener find it nowhere, because it registers no such listener."""
    for broker in context.state.brokers.values():
        if broker.endpoint_at(request.inter_broker_listener) is not None:
            raise InvalidRegistrationError(
                f"broker {request.broker_id} has inter.broker.listener.name = {request.inter_broker_listener}, which is"
                f" a listener for clients on broker {broker.broker_id}; give it the name that the other brokers give"
                " theirs"
            )


def _check_log_dirs_are_its_own(context: DecisionContext, request: RegisterBrokerRequest) -> None:
    wanted = set(request.log_dirs)
    for broker in context.state.brokers.values():
        shared = wanted & set(broker.log_dirs)
        if shared and broker.broker_id != request.broker_id:
            raise DuplicateBrokerRegistrationError(
                f"broker {request.broker_id} has log dir {min(shared)}, which is registered by broker"
                f" {broker.broker_id}: was the directory copied?"
            )


def _record(
    context: DecisionContext,
    request: RegisterBrokerRequest,
    log_dirs: tuple[str, ...],
    broker_epoch: int,
    own_part: _ControllerPart = _NEW,
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        host=request.host,
        port=request.port,
        rack=request.rack,
        fenced=own_part.fenced,
        in_controlled_shutdown=own_part.in_controlled_shutdown,
        log_dirs=log_dirs,
        inter_broker_host=request.inter_broker_host,
        inter_broker_port=request.inter_broker_port,
        offline_log_dirs=own_part.offline_log_dirs,
        flush_policy=request.flush_policy,
        listeners=tuple(map(str, request.listeners)),
        features=request.features if _may_say_features(context) else "",
    )


def _may_say_features(context: DecisionContext) -> bool:
    """An older release stops at a registration that says what its broker supports."""
    return context.config.features.level(context.state.levels, METADATA_VERSION) >= LEVELS_ARE_RECORDS


def _result(
    changes: Sequence[PartitionChangeRecord], record: RegisterBrokerRecord, unknown_lost_log_dirs: tuple[str, ...] = ()
) -> Result:
    return ControllerResult((*changes, record), RegisterBrokerResponse(record.broker_epoch, unknown_lost_log_dirs))
