from penstock.pb import common_pb2 as _common_pb2
from penstock.pb import acls_pb2 as _acls_pb2
from penstock.pb import broker_pb2 as _broker_pb2
from penstock.pb import configs_pb2 as _configs_pb2
from penstock.pb import elections_pb2 as _elections_pb2
from penstock.pb import features_pb2 as _features_pb2
from penstock.pb import quotas_pb2 as _quotas_pb2
from penstock.pb import reassignments_pb2 as _reassignments_pb2
from penstock.pb import users_pb2 as _users_pb2
from penstock.pb import voters_pb2 as _voters_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CalendarVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALENDAR_VERDICT_UNSPECIFIED: _ClassVar[CalendarVerdict]
    CALENDAR_VERDICT_ALONE: _ClassVar[CalendarVerdict]
    CALENDAR_VERDICT_AGREES: _ClassVar[CalendarVerdict]
    CALENDAR_VERDICT_APART: _ClassVar[CalendarVerdict]
    CALENDAR_VERDICT_UNSETTLED: _ClassVar[CalendarVerdict]
CALENDAR_VERDICT_UNSPECIFIED: CalendarVerdict
CALENDAR_VERDICT_ALONE: CalendarVerdict
CALENDAR_VERDICT_AGREES: CalendarVerdict
CALENDAR_VERDICT_APART: CalendarVerdict
CALENDAR_VERDICT_UNSETTLED: CalendarVerdict

class RegisterBrokerRequest(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "incarnation_id", "host", "port", "rack", "previous_broker_epoch", "log_dirs", "failed_log_dirs", "lost_log_dirs", "replicas", "flush_policy", "inter_broker_host", "inter_broker_port", "listeners", "inter_broker_listener", "features")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    FAILED_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    LOST_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    FLUSH_POLICY_FIELD_NUMBER: _ClassVar[int]
    INTER_BROKER_HOST_FIELD_NUMBER: _ClassVar[int]
    INTER_BROKER_PORT_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    INTER_BROKER_LISTENER_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    incarnation_id: str
    host: str
    port: int
    rack: str
    previous_broker_epoch: int
    log_dirs: _containers.RepeatedScalarFieldContainer[str]
    failed_log_dirs: int
    lost_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    replicas: _containers.RepeatedCompositeFieldContainer[HostedReplicas]
    flush_policy: str
    inter_broker_host: str
    inter_broker_port: int
    listeners: _containers.RepeatedCompositeFieldContainer[_common_pb2.ListenerEndpoint]
    inter_broker_listener: str
    features: str
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., rack: _Optional[str] = ..., previous_broker_epoch: _Optional[int] = ..., log_dirs: _Optional[_Iterable[str]] = ..., failed_log_dirs: _Optional[int] = ..., lost_log_dirs: _Optional[_Iterable[str]] = ..., replicas: _Optional[_Iterable[_Union[HostedReplicas, _Mapping]]] = ..., flush_policy: _Optional[str] = ..., inter_broker_host: _Optional[str] = ..., inter_broker_port: _Optional[int] = ..., listeners: _Optional[_Iterable[_Union[_common_pb2.ListenerEndpoint, _Mapping]]] = ..., inter_broker_listener: _Optional[str] = ..., features: _Optional[str] = ...) -> None: ...

class HostedReplicas(_message.Message):
    __slots__ = ("topic_id", "partitions", "log_dir")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    log_dir: str
    def __init__(self, topic_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., log_dir: _Optional[str] = ...) -> None: ...

class RegisterBrokerResponse(_message.Message):
    __slots__ = ("error", "broker_epoch", "unknown_lost_log_dirs")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_LOST_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    broker_epoch: int
    unknown_lost_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., broker_epoch: _Optional[int] = ..., unknown_lost_log_dirs: _Optional[_Iterable[str]] = ...) -> None: ...

class BrokerHeartbeatRequest(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs", "calendar_ms", "cordoned_log_dirs")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURRENT_METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WANT_FENCE_FIELD_NUMBER: _ClassVar[int]
    WANT_SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_MS_FIELD_NUMBER: _ClassVar[int]
    CORDONED_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    calendar_ms: int
    cordoned_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., current_metadata_offset: _Optional[int] = ..., want_fence: _Optional[bool] = ..., want_shut_down: _Optional[bool] = ..., offline_log_dirs: _Optional[_Iterable[str]] = ..., calendar_ms: _Optional[int] = ..., cordoned_log_dirs: _Optional[_Iterable[str]] = ...) -> None: ...

class BrokerHeartbeatResponse(_message.Message):
    __slots__ = ("error", "is_caught_up", "is_fenced", "should_shut_down", "offline_log_dirs", "silent_ms", "must_have_read", "session_timeout_ms", "calendar", "calendar_off_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    IS_FENCED_FIELD_NUMBER: _ClassVar[int]
    SHOULD_SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    SILENT_MS_FIELD_NUMBER: _ClassVar[int]
    MUST_HAVE_READ_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_OFF_MS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    offline_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    silent_ms: int
    must_have_read: int
    session_timeout_ms: int
    calendar: CalendarVerdict
    calendar_off_ms: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., is_caught_up: _Optional[bool] = ..., is_fenced: _Optional[bool] = ..., should_shut_down: _Optional[bool] = ..., offline_log_dirs: _Optional[_Iterable[str]] = ..., silent_ms: _Optional[int] = ..., must_have_read: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ..., calendar: _Optional[_Union[CalendarVerdict, str]] = ..., calendar_off_ms: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "partitions")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[AlterPartitionData]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[AlterPartitionData, _Mapping]]] = ...) -> None: ...

class AlterPartitionData(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "new_isr")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NEW_ISR_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: _containers.RepeatedCompositeFieldContainer[IsrMember]
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., new_isr: _Optional[_Iterable[_Union[IsrMember, _Mapping]]] = ...) -> None: ...

class IsrMember(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AlterPartitionResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[AlterPartitionResult]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[AlterPartitionResult, _Mapping]]] = ...) -> None: ...

class AlterPartitionResult(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "leader_id", "leader_epoch", "partition_epoch", "isr", "elr")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _common_pb2.Error
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    elr: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., leader_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., elr: _Optional[_Iterable[int]] = ...) -> None: ...

class AssignReplicasToDirsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "replicas")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    replicas: _containers.RepeatedCompositeFieldContainer[HostedReplicas]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[HostedReplicas, _Mapping]]] = ...) -> None: ...

class AssignReplicasToDirsResponse(_message.Message):
    __slots__ = ("error", "replicas")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    replicas: _containers.RepeatedCompositeFieldContainer[AssignedReplica]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., replicas: _Optional[_Iterable[_Union[AssignedReplica, _Mapping]]] = ...) -> None: ...

class AssignedReplica(_message.Message):
    __slots__ = ("topic_id", "partition", "error")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _common_pb2.Error
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("first_producer_id", "count")
    FIRST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first_producer_id: int
    count: int
    def __init__(self, first_producer_id: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class CreateInternalTopicRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "name", "partitions", "replication_factor", "config")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    name: str
    partitions: int
    replication_factor: int
    config: _containers.ScalarMap[str, str]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateInternalTopicResponse(_message.Message):
    __slots__ = ("topic_id", "was_made")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    WAS_MADE_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    was_made: bool
    def __init__(self, topic_id: _Optional[str] = ..., was_made: _Optional[bool] = ...) -> None: ...
