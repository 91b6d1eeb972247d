from penstock.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FeatureUpgradeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEATURE_UPGRADE_TYPE_UPGRADE: _ClassVar[FeatureUpgradeType]
    FEATURE_UPGRADE_TYPE_SAFE_DOWNGRADE: _ClassVar[FeatureUpgradeType]
    FEATURE_UPGRADE_TYPE_UNSAFE_DOWNGRADE: _ClassVar[FeatureUpgradeType]
FEATURE_UPGRADE_TYPE_UPGRADE: FeatureUpgradeType
FEATURE_UPGRADE_TYPE_SAFE_DOWNGRADE: FeatureUpgradeType
FEATURE_UPGRADE_TYPE_UNSAFE_DOWNGRADE: FeatureUpgradeType

class DescribeFeaturesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeFeaturesResponse(_message.Message):
    __slots__ = ("features", "nodes", "metadata_offset", "only_own_view")
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ONLY_OWN_VIEW_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedCompositeFieldContainer[FeatureInfo]
    nodes: _containers.RepeatedCompositeFieldContainer[FeatureNode]
    metadata_offset: int
    only_own_view: bool
    def __init__(self, features: _Optional[_Iterable[_Union[FeatureInfo, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[FeatureNode, _Mapping]]] = ..., metadata_offset: _Optional[int] = ..., only_own_view: _Optional[bool] = ...) -> None: ...

class FeatureInfo(_message.Message):
    __slots__ = ("name", "first", "last", "level", "levels")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    first: int
    last: int
    level: int
    levels: _containers.RepeatedCompositeFieldContainer[FeatureLevelInfo]
    def __init__(self, name: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., level: _Optional[int] = ..., levels: _Optional[_Iterable[_Union[FeatureLevelInfo, _Mapping]]] = ...) -> None: ...

class FeatureLevelInfo(_message.Message):
    __slots__ = ("level", "since", "allows")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    ALLOWS_FIELD_NUMBER: _ClassVar[int]
    level: int
    since: str
    allows: str
    def __init__(self, level: _Optional[int] = ..., since: _Optional[str] = ..., allows: _Optional[str] = ...) -> None: ...

class FeatureNode(_message.Message):
    __slots__ = ("node_id", "is_voter", "is_broker", "ranges", "last_heard_ms_ago")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_VOTER_FIELD_NUMBER: _ClassVar[int]
    IS_BROKER_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    is_voter: bool
    is_broker: bool
    ranges: _containers.RepeatedCompositeFieldContainer[FeatureRange]
    last_heard_ms_ago: int
    def __init__(self, node_id: _Optional[int] = ..., is_voter: _Optional[bool] = ..., is_broker: _Optional[bool] = ..., ranges: _Optional[_Iterable[_Union[FeatureRange, _Mapping]]] = ..., last_heard_ms_ago: _Optional[int] = ...) -> None: ...

class FeatureRange(_message.Message):
    __slots__ = ("name", "first", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    first: int
    last: int
    def __init__(self, name: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class FeatureUpdate(_message.Message):
    __slots__ = ("name", "level", "upgrade_type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    level: int
    upgrade_type: FeatureUpgradeType
    def __init__(self, name: _Optional[str] = ..., level: _Optional[int] = ..., upgrade_type: _Optional[_Union[FeatureUpgradeType, str]] = ...) -> None: ...

class UpdateFeaturesRequest(_message.Message):
    __slots__ = ("updates", "validate_only", "timeout_ms")
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    updates: _containers.RepeatedCompositeFieldContainer[FeatureUpdate]
    validate_only: bool
    timeout_ms: int
    def __init__(self, updates: _Optional[_Iterable[_Union[FeatureUpdate, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class UpdateFeaturesResponse(_message.Message):
    __slots__ = ("error", "results", "hindrances", "lost", "metadata_offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    HINDRANCES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    results: _containers.RepeatedCompositeFieldContainer[FeatureUpdateResult]
    hindrances: _containers.RepeatedCompositeFieldContainer[FeatureHindrance]
    lost: _containers.RepeatedScalarFieldContainer[str]
    metadata_offset: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., results: _Optional[_Iterable[_Union[FeatureUpdateResult, _Mapping]]] = ..., hindrances: _Optional[_Iterable[_Union[FeatureHindrance, _Mapping]]] = ..., lost: _Optional[_Iterable[str]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class FeatureUpdateResult(_message.Message):
    __slots__ = ("name", "level", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    level: int
    error: _common_pb2.Error
    def __init__(self, name: _Optional[str] = ..., level: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class FeatureHindrance(_message.Message):
    __slots__ = ("node_id", "feature", "reason")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    feature: str
    reason: str
    def __init__(self, node_id: _Optional[int] = ..., feature: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
