from penstock.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QuotaMatch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUOTA_MATCH_UNKNOWN: _ClassVar[QuotaMatch]
    QUOTA_MATCH_EXACT: _ClassVar[QuotaMatch]
    QUOTA_MATCH_DEFAULT: _ClassVar[QuotaMatch]
    QUOTA_MATCH_ANY: _ClassVar[QuotaMatch]
QUOTA_MATCH_UNKNOWN: QuotaMatch
QUOTA_MATCH_EXACT: QuotaMatch
QUOTA_MATCH_DEFAULT: QuotaMatch
QUOTA_MATCH_ANY: QuotaMatch

class QuotaChange(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: float
    def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class QuotaAlteration(_message.Message):
    __slots__ = ("user", "client_id", "ip", "changes")
    USER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    user: str
    client_id: str
    ip: str
    changes: _containers.RepeatedCompositeFieldContainer[QuotaChange]
    def __init__(self, user: _Optional[str] = ..., client_id: _Optional[str] = ..., ip: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[QuotaChange, _Mapping]]] = ...) -> None: ...

class AlterClientQuotasRequest(_message.Message):
    __slots__ = ("alterations", "validate_only", "timeout_ms")
    ALTERATIONS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    alterations: _containers.RepeatedCompositeFieldContainer[QuotaAlteration]
    validate_only: bool
    timeout_ms: int
    def __init__(self, alterations: _Optional[_Iterable[_Union[QuotaAlteration, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AlterClientQuotasResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AlteredQuota]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[AlteredQuota, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlteredQuota(_message.Message):
    __slots__ = ("user", "client_id", "ip", "error")
    USER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    user: str
    client_id: str
    ip: str
    error: _common_pb2.Error
    def __init__(self, user: _Optional[str] = ..., client_id: _Optional[str] = ..., ip: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class QuotaFilterPart(_message.Message):
    __slots__ = ("entity_type", "match", "name")
    ENTITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    entity_type: str
    match: QuotaMatch
    name: str
    def __init__(self, entity_type: _Optional[str] = ..., match: _Optional[_Union[QuotaMatch, str]] = ..., name: _Optional[str] = ...) -> None: ...

class DescribeClientQuotasRequest(_message.Message):
    __slots__ = ("parts", "strict")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[QuotaFilterPart]
    strict: bool
    def __init__(self, parts: _Optional[_Iterable[_Union[QuotaFilterPart, _Mapping]]] = ..., strict: _Optional[bool] = ...) -> None: ...

class DescribeClientQuotasResponse(_message.Message):
    __slots__ = ("quotas", "metadata_offset")
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[ClientQuota]
    metadata_offset: int
    def __init__(self, quotas: _Optional[_Iterable[_Union[ClientQuota, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class ClientQuota(_message.Message):
    __slots__ = ("user", "client_id", "ip", "values")
    USER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    user: str
    client_id: str
    ip: str
    values: _containers.RepeatedCompositeFieldContainer[QuotaValue]
    def __init__(self, user: _Optional[str] = ..., client_id: _Optional[str] = ..., ip: _Optional[str] = ..., values: _Optional[_Iterable[_Union[QuotaValue, _Mapping]]] = ...) -> None: ...

class QuotaValue(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: float
    def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
