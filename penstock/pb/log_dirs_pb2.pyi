from penstock.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeLogDirsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeLogDirsResponse(_message.Message):
    __slots__ = ("node_id", "log_dirs")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    log_dirs: _containers.RepeatedCompositeFieldContainer[LogDir]
    def __init__(self, node_id: _Optional[int] = ..., log_dirs: _Optional[_Iterable[_Union[LogDir, _Mapping]]] = ...) -> None: ...

class LogDir(_message.Message):
    __slots__ = ("path", "directory_id", "error", "total_bytes", "usable_bytes", "topics", "is_cordoned")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    USABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    IS_CORDONED_FIELD_NUMBER: _ClassVar[int]
    path: str
    directory_id: str
    error: _common_pb2.Error
    total_bytes: int
    usable_bytes: int
    topics: _containers.RepeatedCompositeFieldContainer[LogDirTopic]
    is_cordoned: bool
    def __init__(self, path: _Optional[str] = ..., directory_id: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., total_bytes: _Optional[int] = ..., usable_bytes: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[LogDirTopic, _Mapping]]] = ..., is_cordoned: _Optional[bool] = ...) -> None: ...

class LogDirTopic(_message.Message):
    __slots__ = ("topic", "topic_id", "replicas")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    replicas: _containers.RepeatedCompositeFieldContainer[LogDirReplica]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., replicas: _Optional[_Iterable[_Union[LogDirReplica, _Mapping]]] = ...) -> None: ...

class LogDirReplica(_message.Message):
    __slots__ = ("partition", "size_bytes", "log_start_offset", "log_end_offset", "is_future", "offset_lag", "bytes_left", "waits_for")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_FUTURE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_LAG_FIELD_NUMBER: _ClassVar[int]
    BYTES_LEFT_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    is_future: bool
    offset_lag: int
    bytes_left: int
    waits_for: str
    def __init__(self, partition: _Optional[int] = ..., size_bytes: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., is_future: _Optional[bool] = ..., offset_lag: _Optional[int] = ..., bytes_left: _Optional[int] = ..., waits_for: _Optional[str] = ...) -> None: ...

class AlterReplicaLogDirsRequest(_message.Message):
    __slots__ = ("dirs",)
    DIRS_FIELD_NUMBER: _ClassVar[int]
    dirs: _containers.RepeatedCompositeFieldContainer[AlterReplicaLogDir]
    def __init__(self, dirs: _Optional[_Iterable[_Union[AlterReplicaLogDir, _Mapping]]] = ...) -> None: ...

class AlterReplicaLogDir(_message.Message):
    __slots__ = ("path", "topics")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    path: str
    topics: _containers.RepeatedCompositeFieldContainer[AlterReplicaLogDirTopic]
    def __init__(self, path: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[AlterReplicaLogDirTopic, _Mapping]]] = ...) -> None: ...

class AlterReplicaLogDirTopic(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class AlterReplicaLogDirsResponse(_message.Message):
    __slots__ = ("node_id", "results")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    results: _containers.RepeatedCompositeFieldContainer[AlterReplicaLogDirResult]
    def __init__(self, node_id: _Optional[int] = ..., results: _Optional[_Iterable[_Union[AlterReplicaLogDirResult, _Mapping]]] = ...) -> None: ...

class AlterReplicaLogDirResult(_message.Message):
    __slots__ = ("topic", "partition", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: _common_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...
