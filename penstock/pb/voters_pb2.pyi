from penstock.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AddVoterRequest(_message.Message):
    __slots__ = ("cluster_id", "voter_id", "directory_id", "endpoints", "ack_when_appended", "timeout_ms")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VOTER_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    ACK_WHEN_APPENDED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    voter_id: int
    directory_id: str
    endpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.ListenerEndpoint]
    ack_when_appended: bool
    timeout_ms: int
    def __init__(self, cluster_id: _Optional[str] = ..., voter_id: _Optional[int] = ..., directory_id: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[_common_pb2.ListenerEndpoint, _Mapping]]] = ..., ack_when_appended: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AddVoterResponse(_message.Message):
    __slots__ = ("error", "metadata_offset", "is_so_already")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SO_ALREADY_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    metadata_offset: int
    is_so_already: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., metadata_offset: _Optional[int] = ..., is_so_already: _Optional[bool] = ...) -> None: ...

class RemoveVoterRequest(_message.Message):
    __slots__ = ("cluster_id", "voter_id", "directory_id", "timeout_ms")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VOTER_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    voter_id: int
    directory_id: str
    timeout_ms: int
    def __init__(self, cluster_id: _Optional[str] = ..., voter_id: _Optional[int] = ..., directory_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class RemoveVoterResponse(_message.Message):
    __slots__ = ("error", "metadata_offset", "is_so_already")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SO_ALREADY_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    metadata_offset: int
    is_so_already: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., metadata_offset: _Optional[int] = ..., is_so_already: _Optional[bool] = ...) -> None: ...

class UpdateVoterRequest(_message.Message):
    __slots__ = ("cluster_id", "voter_id", "directory_id", "endpoints", "timeout_ms")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VOTER_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    voter_id: int
    directory_id: str
    endpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.ListenerEndpoint]
    timeout_ms: int
    def __init__(self, cluster_id: _Optional[str] = ..., voter_id: _Optional[int] = ..., directory_id: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[_common_pb2.ListenerEndpoint, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class UpdateVoterResponse(_message.Message):
    __slots__ = ("error", "metadata_offset", "is_so_already")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SO_ALREADY_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    metadata_offset: int
    is_so_already: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., metadata_offset: _Optional[int] = ..., is_so_already: _Optional[bool] = ...) -> None: ...

class UnregisterControllerRequest(_message.Message):
    __slots__ = ("controller_id", "timeout_ms")
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    controller_id: int
    timeout_ms: int
    def __init__(self, controller_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class UnregisterControllerResponse(_message.Message):
    __slots__ = ("error", "metadata_offset", "is_so_already")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SO_ALREADY_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    metadata_offset: int
    is_so_already: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., metadata_offset: _Optional[int] = ..., is_so_already: _Optional[bool] = ...) -> None: ...

class MakeQuorumDynamicRequest(_message.Message):
    __slots__ = ("cluster_id", "timeout_ms")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    timeout_ms: int
    def __init__(self, cluster_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class MakeQuorumDynamicResponse(_message.Message):
    __slots__ = ("error", "metadata_offset", "is_so_already")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SO_ALREADY_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    metadata_offset: int
    is_so_already: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., metadata_offset: _Optional[int] = ..., is_so_already: _Optional[bool] = ...) -> None: ...
