from penstock.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QuorumEndpoint(_message.Message):
    __slots__ = ("name", "host", "port")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    port: int
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("cluster_id", "candidate_epoch", "candidate_id", "voter_id", "last_epoch", "last_epoch_end_offset", "pre_vote", "candidate_directory_id", "voter_directory_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_ID_FIELD_NUMBER: _ClassVar[int]
    VOTER_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    VOTER_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    candidate_epoch: int
    candidate_id: int
    voter_id: int
    last_epoch: int
    last_epoch_end_offset: int
    pre_vote: bool
    candidate_directory_id: str
    voter_directory_id: str
    def __init__(self, cluster_id: _Optional[str] = ..., candidate_epoch: _Optional[int] = ..., candidate_id: _Optional[int] = ..., voter_id: _Optional[int] = ..., last_epoch: _Optional[int] = ..., last_epoch_end_offset: _Optional[int] = ..., pre_vote: _Optional[bool] = ..., candidate_directory_id: _Optional[str] = ..., voter_directory_id: _Optional[str] = ...) -> None: ...

class VoteResponse(_message.Message):
    __slots__ = ("error", "leader_id", "leader_epoch", "vote_granted", "leader_endpoints")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    VOTE_GRANTED_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    leader_id: int
    leader_epoch: int
    vote_granted: bool
    leader_endpoints: _containers.RepeatedCompositeFieldContainer[QuorumEndpoint]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., vote_granted: _Optional[bool] = ..., leader_endpoints: _Optional[_Iterable[_Union[QuorumEndpoint, _Mapping]]] = ...) -> None: ...

class BeginQuorumEpochRequest(_message.Message):
    __slots__ = ("cluster_id", "leader_id", "leader_epoch", "voter_id", "leader_endpoints")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    VOTER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    leader_id: int
    leader_epoch: int
    voter_id: int
    leader_endpoints: _containers.RepeatedCompositeFieldContainer[QuorumEndpoint]
    def __init__(self, cluster_id: _Optional[str] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., voter_id: _Optional[int] = ..., leader_endpoints: _Optional[_Iterable[_Union[QuorumEndpoint, _Mapping]]] = ...) -> None: ...

class BeginQuorumEpochResponse(_message.Message):
    __slots__ = ("error", "leader_id", "leader_epoch", "leader_endpoints")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    leader_id: int
    leader_epoch: int
    leader_endpoints: _containers.RepeatedCompositeFieldContainer[QuorumEndpoint]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., leader_endpoints: _Optional[_Iterable[_Union[QuorumEndpoint, _Mapping]]] = ...) -> None: ...

class EndQuorumEpochRequest(_message.Message):
    __slots__ = ("cluster_id", "leader_id", "leader_epoch", "preferred_successors")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_SUCCESSORS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    leader_id: int
    leader_epoch: int
    preferred_successors: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cluster_id: _Optional[str] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., preferred_successors: _Optional[_Iterable[int]] = ...) -> None: ...

class EndQuorumEpochResponse(_message.Message):
    __slots__ = ("error", "leader_id", "leader_epoch", "leader_endpoints")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    leader_id: int
    leader_epoch: int
    leader_endpoints: _containers.RepeatedCompositeFieldContainer[QuorumEndpoint]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., leader_endpoints: _Optional[_Iterable[_Union[QuorumEndpoint, _Mapping]]] = ...) -> None: ...

class FetchMetadataRequest(_message.Message):
    __slots__ = ("cluster_id", "replica_id", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "max_wait_ms", "max_bytes", "incarnation_id", "heard_ms", "replica_directory_id", "supports")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_FETCHED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    REPLICA_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int
    incarnation_id: str
    heard_ms: int
    replica_directory_id: str
    supports: str
    def __init__(self, cluster_id: _Optional[str] = ..., replica_id: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., fetch_offset: _Optional[int] = ..., last_fetched_epoch: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., heard_ms: _Optional[int] = ..., replica_directory_id: _Optional[str] = ..., supports: _Optional[str] = ...) -> None: ...

class FetchMetadataResponse(_message.Message):
    __slots__ = ("error", "leader_id", "leader_epoch", "high_watermark", "log_start_offset", "records", "diverging_epoch", "snapshot_id", "log_end_offset", "leader_time_ms", "leader_endpoints")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverging_epoch: _common_pb2.EpochEndOffset
    snapshot_id: _common_pb2.EpochEndOffset
    log_end_offset: int
    leader_time_ms: int
    leader_endpoints: _containers.RepeatedCompositeFieldContainer[QuorumEndpoint]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., records: _Optional[bytes] = ..., diverging_epoch: _Optional[_Union[_common_pb2.EpochEndOffset, _Mapping]] = ..., snapshot_id: _Optional[_Union[_common_pb2.EpochEndOffset, _Mapping]] = ..., log_end_offset: _Optional[int] = ..., leader_time_ms: _Optional[int] = ..., leader_endpoints: _Optional[_Iterable[_Union[QuorumEndpoint, _Mapping]]] = ...) -> None: ...

class FetchSnapshotRequest(_message.Message):
    __slots__ = ("cluster_id", "replica_id", "current_leader_epoch", "snapshot_id", "position", "max_bytes", "incarnation_id", "replica_directory_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICA_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    replica_id: int
    current_leader_epoch: int
    snapshot_id: _common_pb2.EpochEndOffset
    position: int
    max_bytes: int
    incarnation_id: str
    replica_directory_id: str
    def __init__(self, cluster_id: _Optional[str] = ..., replica_id: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., snapshot_id: _Optional[_Union[_common_pb2.EpochEndOffset, _Mapping]] = ..., position: _Optional[int] = ..., max_bytes: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., replica_directory_id: _Optional[str] = ...) -> None: ...

class FetchSnapshotResponse(_message.Message):
    __slots__ = ("error", "leader_id", "leader_epoch", "snapshot_id", "size_bytes", "position", "data", "leader_endpoints")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    leader_id: int
    leader_epoch: int
    snapshot_id: _common_pb2.EpochEndOffset
    size_bytes: int
    position: int
    data: bytes
    leader_endpoints: _containers.RepeatedCompositeFieldContainer[QuorumEndpoint]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., snapshot_id: _Optional[_Union[_common_pb2.EpochEndOffset, _Mapping]] = ..., size_bytes: _Optional[int] = ..., position: _Optional[int] = ..., data: _Optional[bytes] = ..., leader_endpoints: _Optional[_Iterable[_Union[QuorumEndpoint, _Mapping]]] = ...) -> None: ...
