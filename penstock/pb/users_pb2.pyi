from penstock.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScramMechanism(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCRAM_MECHANISM_UNKNOWN: _ClassVar[ScramMechanism]
    SCRAM_MECHANISM_SCRAM_SHA_256: _ClassVar[ScramMechanism]
    SCRAM_MECHANISM_SCRAM_SHA_512: _ClassVar[ScramMechanism]
SCRAM_MECHANISM_UNKNOWN: ScramMechanism
SCRAM_MECHANISM_SCRAM_SHA_256: ScramMechanism
SCRAM_MECHANISM_SCRAM_SHA_512: ScramMechanism

class AlterUserScramCredentialsRequest(_message.Message):
    __slots__ = ("deletions", "upsertions", "timeout_ms")
    DELETIONS_FIELD_NUMBER: _ClassVar[int]
    UPSERTIONS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    deletions: _containers.RepeatedCompositeFieldContainer[ScramDeletion]
    upsertions: _containers.RepeatedCompositeFieldContainer[ScramUpsertion]
    timeout_ms: int
    def __init__(self, deletions: _Optional[_Iterable[_Union[ScramDeletion, _Mapping]]] = ..., upsertions: _Optional[_Iterable[_Union[ScramUpsertion, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ScramDeletion(_message.Message):
    __slots__ = ("user", "mechanism")
    USER_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    user: str
    mechanism: ScramMechanism
    def __init__(self, user: _Optional[str] = ..., mechanism: _Optional[_Union[ScramMechanism, str]] = ...) -> None: ...

class ScramUpsertion(_message.Message):
    __slots__ = ("user", "mechanism", "iterations", "salt", "stored_key", "server_key")
    USER_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    def __init__(self, user: _Optional[str] = ..., mechanism: _Optional[_Union[ScramMechanism, str]] = ..., iterations: _Optional[int] = ..., salt: _Optional[bytes] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class AlterUserScramCredentialsResponse(_message.Message):
    __slots__ = ("users", "metadata_offset")
    USERS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[AlteredUser]
    metadata_offset: int
    def __init__(self, users: _Optional[_Iterable[_Union[AlteredUser, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlteredUser(_message.Message):
    __slots__ = ("user", "error", "is_gone")
    USER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_GONE_FIELD_NUMBER: _ClassVar[int]
    user: str
    error: _common_pb2.Error
    is_gone: bool
    def __init__(self, user: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., is_gone: _Optional[bool] = ...) -> None: ...

class DescribeUserScramCredentialsRequest(_message.Message):
    __slots__ = ("users", "after")
    USERS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedScalarFieldContainer[str]
    after: str
    def __init__(self, users: _Optional[_Iterable[str]] = ..., after: _Optional[str] = ...) -> None: ...

class DescribeUserScramCredentialsResponse(_message.Message):
    __slots__ = ("users", "has_more", "metadata_offset")
    USERS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[DescribedUser]
    has_more: bool
    metadata_offset: int
    def __init__(self, users: _Optional[_Iterable[_Union[DescribedUser, _Mapping]]] = ..., has_more: _Optional[bool] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class DescribedUser(_message.Message):
    __slots__ = ("user", "credentials", "error")
    USER_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    user: str
    credentials: _containers.RepeatedCompositeFieldContainer[ScramCredentialInfo]
    error: _common_pb2.Error
    def __init__(self, user: _Optional[str] = ..., credentials: _Optional[_Iterable[_Union[ScramCredentialInfo, _Mapping]]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class ScramCredentialInfo(_message.Message):
    __slots__ = ("mechanism", "iterations")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    mechanism: ScramMechanism
    iterations: int
    def __init__(self, mechanism: _Optional[_Union[ScramMechanism, str]] = ..., iterations: _Optional[int] = ...) -> None: ...
