"""The quorum's own messages (`raft.messages`), between protobuf and values. Fields mirror the protos one to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from penstock.pb import common_pb2, quorum_pb2
from penstock.types import Endpoint, EpochEndOffset, ListenerEndpoint
from raft import messages as raft


def vote_from_pb(m: quorum_pb2.VoteRequest) -> raft.VoteRequest:
    return raft.VoteRequest(
        m.cluster_id,
        m.candidate_epoch,
        m.candidate_id,
        m.voter_id,
        m.last_epoch,
        m.last_epoch_end_offset,
        m.pre_vote,
        m.candidate_directory_id,
        m.voter_directory_id,
    )


def begin_from_pb(m: quorum_pb2.BeginQuorumEpochRequest) -> raft.BeginQuorumEpochRequest:
    return raft.BeginQuorumEpochRequest(m.cluster_id, m.leader_id, m.leader_epoch, m.voter_id, _endpoints(m))


def end_from_pb(m: quorum_pb2.EndQuorumEpochRequest) -> raft.EndQuorumEpochRequest:
    return raft.EndQuorumEpochRequest(m.cluster_id, m.leader_id, m.leader_epoch, tuple(m.preferred_successors))


def fetch_from_pb(m: quorum_pb2.FetchMetadataRequest) -> raft.FetchMetadataRequest:
    return raft.FetchMetadataRequest(
        m.cluster_id,
        m.replica_id,
        m.current_leader_epoch,
        m.fetch_offset,
        m.last_fetched_epoch,
        m.max_wait_ms,
        m.max_bytes,
        m.incarnation_id,
        m.heard_ms,
        m.replica_directory_id,
        m.supports,
    )


def fetch_snapshot_from_pb(m: quorum_pb2.FetchSnapshotRequest) -> raft.FetchSnapshotRequest:
    snapshot_id = EpochEndOffset(m.snapshot_id.epoch, m.snapshot_id.end_offset)
    return raft.FetchSnapshotRequest(
        m.cluster_id,
        m.replica_id,
        m.current_leader_epoch,
        snapshot_id,
        m.position,
        m.max_bytes,
        m.incarnation_id,
        m.replica_directory_id,
    )


def request_to_pb(request: raft.Request) -> Any:
    """The message of any quorum request."""
    match request:
        case raft.VoteRequest():
            return quorum_pb2.VoteRequest(
                cluster_id=request.cluster_id,
                candidate_epoch=request.candidate_epoch,
                candidate_id=request.candidate_id,
                voter_id=request.voter_id,
                last_epoch=request.last_epoch,
                last_epoch_end_offset=request.last_epoch_end_offset,
                pre_vote=request.pre_vote,
                candidate_directory_id=request.candidate_directory_id,
                voter_directory_id=request.voter_directory_id,
            )
        case raft.BeginQuorumEpochRequest():
            return quorum_pb2.BeginQuorumEpochRequest(
                cluster_id=request.cluster_id,
                leader_id=request.leader_id,
                leader_epoch=request.leader_epoch,
                voter_id=request.voter_id,
                leader_endpoints=_endpoints_pb(request.leader_endpoints),
            )
        case raft.EndQuorumEpochRequest():
            return quorum_pb2.EndQuorumEpochRequest(
                cluster_id=request.cluster_id,
                leader_id=request.leader_id,
                leader_epoch=request.leader_epoch,
                preferred_successors=request.preferred_successors,
            )
        case raft.FetchMetadataRequest():
            return quorum_pb2.FetchMetadataRequest(
                cluster_id=request.cluster_id,
                replica_id=request.replica_id,
                current_leader_epoch=request.current_leader_epoch,
                fetch_offset=request.fetch_offset,
                last_fetched_epoch=request.last_fetched_epoch,
                max_wait_ms=request.max_wait_ms,
                max_bytes=request.max_bytes,
                incarnation_id=request.incarnation_id,
                heard_ms=request.heard_ms,
                replica_directory_id=request.replica_directory_id,
                supports=request.supports,
            )
        case raft.FetchSnapshotRequest():
            epoch, end_offset = request.snapshot_id
            return quorum_pb2.FetchSnapshotRequest(
                cluster_id=request.cluster_id,
                replica_id=request.replica_id,
                current_leader_epoch=request.current_leader_epoch,
                snapshot_id=common_pb2.EpochEndOffset(epoch=epoch, end_offset=end_offset),
                position=request.position,
                max_bytes=request.max_bytes,
                incarnation_id=request.incarnation_id,
                replica_directory_id=request.replica_directory_id,
            )


def vote_to_pb(r: raft.VoteResponse) -> quorum_pb2.VoteResponse:
    return quorum_pb2.VoteResponse(
        error=_raft_error(r.error_code, r.error_message),
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        vote_granted=r.vote_granted,
        leader_endpoints=_endpoints_pb(r.leader_endpoints),
    )


def begin_to_pb(r: raft.BeginQuorumEpochResponse) -> quorum_pb2.BeginQuorumEpochResponse:
    error = _raft_error(r.error_code, r.error_message)
    return quorum_pb2.BeginQuorumEpochResponse(
        error=error,
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        leader_endpoints=_endpoints_pb(r.leader_endpoints),
    )


def end_to_pb(r: raft.EndQuorumEpochResponse) -> quorum_pb2.EndQuorumEpochResponse:
    error = _raft_error(r.error_code, r.error_message)
    return quorum_pb2.EndQuorumEpochResponse(
        error=error,
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        leader_endpoints=_endpoints_pb(r.leader_endpoints),
    )


def fetch_to_pb(r: raft.FetchMetadataResponse) -> quorum_pb2.FetchMetadataResponse:
    message = quorum_pb2.FetchMetadataResponse(
        error=_raft_error(r.error_code, r.error_message),
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        high_watermark=r.high_watermark,
        log_start_offset=r.log_start_offset,
        records=r.records,
        log_end_offset=r.log_end_offset,
        leader_time_ms=r.leader_time_ms,
        leader_endpoints=_endpoints_pb(r.leader_endpoints),
    )
    if r.diverging_epoch is not None:
        message.diverging_epoch.epoch, message.diverging_epoch.end_offset = r.diverging_epoch
    if r.snapshot_id is not None:
        message.snapshot_id.epoch, message.snapshot_id.end_offset = r.snapshot_id
    return message


def fetch_snapshot_to_pb(r: raft.FetchSnapshotResponse) -> quorum_pb2.FetchSnapshotResponse:
    message = quorum_pb2.FetchSnapshotResponse(
        error=_raft_error(r.error_code, r.error_message),
        leader_id=r.leader_id,
        leader_epoch=r.leader_epoch,
        size_bytes=r.size_bytes,
        position=r.position,
        data=r.data,
        leader_endpoints=_endpoints_pb(r.leader_endpoints),
    )
    if r.snapshot_id is not None:
        message.snapshot_id.epoch, message.snapshot_id.end_offset = r.snapshot_id
    return message


def response_from_pb(message: Any) -> raft.Response:
    """Any quorum response."""
    code, text, endpoints = message.error.code, message.error.message, _endpoints(message)
    match message:
        case quorum_pb2.VoteResponse():
            granted = message.vote_granted
            return raft.VoteResponse(message.leader_id, message.leader_epoch, granted, code, text, endpoints)
        case quorum_pb2.BeginQuorumEpochResponse():
            return raft.BeginQuorumEpochResponse(message.leader_id, message.leader_epoch, code, text, endpoints)
        case quorum_pb2.EndQuorumEpochResponse():
            return raft.EndQuorumEpochResponse(message.leader_id, message.leader_epoch, code, text, endpoints)
        case quorum_pb2.FetchSnapshotResponse():
            return raft.FetchSnapshotResponse(
                message.leader_id,
                message.leader_epoch,
                snapshot_id=_epoch_end(message, "snapshot_id"),
                size_bytes=message.size_bytes,
                position=message.position,
                data=message.data,
                error_code=code,
                error_message=text,
                leader_endpoints=endpoints,
            )
        case _:
            return raft.FetchMetadataResponse(
                message.leader_id,
                message.leader_epoch,
                high_watermark=message.high_watermark,
                log_start_offset=message.log_start_offset,
                records=message.records,
                diverging_epoch=_epoch_end(message, "diverging_epoch"),
                snapshot_id=_epoch_end(message, "snapshot_id"),
                error_code=code,
                error_message=text,
                leader_endpoints=endpoints,
                log_end_offset=message.log_end_offset,
                leader_time_ms=message.leader_time_ms,
            )


def _endpoints(message: Any) -> tuple[ListenerEndpoint, ...]:
    return tuple(ListenerEndpoint(at.name, Endpoint(at.host, at.port)) for at in message.leader_endpoints)


def _endpoints_pb(endpoints: Iterable[ListenerEndpoint]) -> list[quorum_pb2.QuorumEndpoint]:
    return [quorum_pb2.QuorumEndpoint(name=at.name, host=at.endpoint.host, port=at.endpoint.port) for at in endpoints]


def _raft_error(code: int, message: str) -> common_pb2.Error | None:
    return common_pb2.Error(code=code, message=message) if code != raft.NO_ERROR else None


def _epoch_end(message: Any, field: str) -> EpochEndOffset | None:
    if not message.HasField(field):
        return None
    found = getattr(message, field)
    return EpochEndOffset(found.epoch, found.end_offset)


class _Call(NamedTuple):
    """One call of the quorum: its messages, and how they are decoded and encoded."""

    request: Any
    response: Any
    request_from_pb: Callable[[Any], Any]
    response_to_pb: Callable[[Any], Any]


CALLS: Final = {
    "Vote": _Call(quorum_pb2.VoteRequest, quorum_pb2.VoteResponse, vote_from_pb, vote_to_pb),
    "BeginQuorumEpoch": _Call(
        quorum_pb2.BeginQuorumEpochRequest, quorum_pb2.BeginQuorumEpochResponse, begin_from_pb, begin_to_pb
    ),
    "EndQuorumEpoch": _Call(
        quorum_pb2.EndQuorumEpochRequest, quorum_pb2.EndQuorumEpochResponse, end_from_pb, end_to_pb
    ),
    "FetchMetadata": _Call(
        quorum_pb2.FetchMetadataRequest, quorum_pb2.FetchMetadataResponse, fetch_from_pb, fetch_to_pb
    ),
    "FetchSnapshot": _Call(
        quorum_pb2.FetchSnapshotRequest, quorum_pb2.FetchSnapshotResponse, fetch_snapshot_from_pb, fetch_snapshot_to_pb
    ),
}
"""The quorum's calls by the name of their API."""
_NAMES: Final = {
    raft.VoteRequest: "Vote",
    raft.BeginQuorumEpochRequest: "BeginQuorumEpoch",
    raft.EndQuorumEpochRequest: "EndQuorumEpoch",
    raft.FetchMetadataRequest: "FetchMetadata",
    raft.FetchSnapshotRequest: "FetchSnapshot",
}


def api_of(request: raft.Request) -> str:
    """The name of the API that a request is of."""
    return _NAMES[type(request)]


def request_to_bytes(request: raft.Request) -> bytes:
    return request_to_pb(request).SerializeToString()  # type: ignore[no-any-return]


def request_from_bytes(api: str) -> Callable[[bytes], Any]:
    """The decoder of an API's requests; DecodeError for bytes that are no message."""
    call = CALLS[api]
    return lambda raw: call.request_from_pb(call.request.FromString(raw))


def response_to_bytes(api: str) -> Callable[[Any], bytes]:
    """The encoder of an API's answers."""
    to_pb = CALLS[api].response_to_pb
    return lambda response: to_pb(response).SerializeToString()


def response_from_bytes(api: str) -> Callable[[bytes], raft.Response]:
    """The decoder of an API's answers; DecodeError for bytes that are no message."""
    parse = CALLS[api].response.FromString
    return lambda raw: response_from_pb(parse(raw))
