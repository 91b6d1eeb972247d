from penstock.pb import common_pb2 as _common_pb2
from penstock.pb import groups_pb2 as _groups_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AddPartitionsToTxnRequest(_message.Message):
    __slots__ = ("transactions", "waits")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionPartitions]
    waits: bool
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionPartitions, _Mapping]]] = ..., waits: _Optional[bool] = ...) -> None: ...

class TransactionPartitions(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "partitions", "verify_only", "bumps_epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_ONLY_FIELD_NUMBER: _ClassVar[int]
    BUMPS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[_groups_pb2.TopicPartition]
    verify_only: bool
    bumps_epoch: bool
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_groups_pb2.TopicPartition, _Mapping]]] = ..., verify_only: _Optional[bool] = ..., bumps_epoch: _Optional[bool] = ...) -> None: ...

class AddPartitionsToTxnResponse(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionPartitionResults]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionPartitionResults, _Mapping]]] = ...) -> None: ...

class TransactionPartitionResults(_message.Message):
    __slots__ = ("transactional_id", "partitions")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[TransactionPartitionResult]
    def __init__(self, transactional_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[TransactionPartitionResult, _Mapping]]] = ...) -> None: ...

class TransactionPartitionResult(_message.Message):
    __slots__ = ("topic", "partition", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: _common_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class AddOffsetsToTxnRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id", "waits")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    waits: bool
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., group_id: _Optional[str] = ..., waits: _Optional[bool] = ...) -> None: ...

class AddOffsetsToTxnResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TxnOffsetCommitRequest(_message.Message):
    __slots__ = ("transactional_id", "group_id", "producer_id", "producer_epoch", "partitions", "member_id", "member_epoch", "group_instance_id", "adds_group")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDS_GROUP_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[_groups_pb2.OffsetCommitPartition]
    member_id: str
    member_epoch: int
    group_instance_id: str
    adds_group: bool
    def __init__(self, transactional_id: _Optional[str] = ..., group_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_groups_pb2.OffsetCommitPartition, _Mapping]]] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., group_instance_id: _Optional[str] = ..., adds_group: _Optional[bool] = ...) -> None: ...

class TxnOffsetCommitResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_groups_pb2.OffsetCommitResult]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_groups_pb2.OffsetCommitResult, _Mapping]]] = ...) -> None: ...

class EndTxnRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "is_committed", "bumps_epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    BUMPS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_committed: bool
    bumps_epoch: bool
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., is_committed: _Optional[bool] = ..., bumps_epoch: _Optional[bool] = ...) -> None: ...

class EndTxnResponse(_message.Message):
    __slots__ = ("producer_id", "producer_epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class BeginAtomicBatchRequest(_message.Message):
    __slots__ = ("application", "version", "timeout_ms", "run", "goes_back", "is_one_off")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    GOES_BACK_FIELD_NUMBER: _ClassVar[int]
    IS_ONE_OFF_FIELD_NUMBER: _ClassVar[int]
    application: str
    version: int
    timeout_ms: int
    run: str
    goes_back: bool
    is_one_off: bool
    def __init__(self, application: _Optional[str] = ..., version: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., run: _Optional[str] = ..., goes_back: _Optional[bool] = ..., is_one_off: _Optional[bool] = ...) -> None: ...

class BeginAtomicBatchResponse(_message.Message):
    __slots__ = ("is_committed", "transactional_id", "producer_id", "producer_epoch")
    IS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    is_committed: bool
    transactional_id: str
    producer_id: int
    producer_epoch: int
    def __init__(self, is_committed: _Optional[bool] = ..., transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class CommitAtomicBatchRequest(_message.Message):
    __slots__ = ("application", "version", "writers", "run", "goes_back", "records", "checksum")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    GOES_BACK_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    application: str
    version: int
    writers: _containers.RepeatedCompositeFieldContainer[BatchWriter]
    run: str
    goes_back: bool
    records: int
    checksum: int
    def __init__(self, application: _Optional[str] = ..., version: _Optional[int] = ..., writers: _Optional[_Iterable[_Union[BatchWriter, _Mapping]]] = ..., run: _Optional[str] = ..., goes_back: _Optional[bool] = ..., records: _Optional[int] = ..., checksum: _Optional[int] = ...) -> None: ...

class BatchWriter(_message.Message):
    __slots__ = ("producer_id", "epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class CommitAtomicBatchResponse(_message.Message):
    __slots__ = ("was_committed", "records", "checksum")
    WAS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    was_committed: bool
    records: int
    checksum: int
    def __init__(self, was_committed: _Optional[bool] = ..., records: _Optional[int] = ..., checksum: _Optional[int] = ...) -> None: ...

class AbortAtomicBatchRequest(_message.Message):
    __slots__ = ("application", "version", "run", "writers")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    application: str
    version: int
    run: str
    writers: _containers.RepeatedCompositeFieldContainer[BatchWriter]
    def __init__(self, application: _Optional[str] = ..., version: _Optional[int] = ..., run: _Optional[str] = ..., writers: _Optional[_Iterable[_Union[BatchWriter, _Mapping]]] = ...) -> None: ...

class AbortAtomicBatchResponse(_message.Message):
    __slots__ = ("is_committed", "over_below")
    IS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    OVER_BELOW_FIELD_NUMBER: _ClassVar[int]
    is_committed: bool
    over_below: int
    def __init__(self, is_committed: _Optional[bool] = ..., over_below: _Optional[int] = ...) -> None: ...

class DescribeTransactionsRequest(_message.Message):
    __slots__ = ("transactional_ids",)
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    transactional_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactional_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeTransactionsResponse(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionDescription]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionDescription, _Mapping]]] = ...) -> None: ...

class TransactionDescription(_message.Message):
    __slots__ = ("transactional_id", "error", "state", "timeout_ms", "start_ms", "producer_id", "producer_epoch", "partitions")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    error: _common_pb2.Error
    state: str
    timeout_ms: int
    start_ms: int
    producer_id: int
    producer_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[_groups_pb2.TopicPartition]
    def __init__(self, transactional_id: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., state: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., start_ms: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_groups_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("states", "producer_ids", "duration_ms", "pattern")
    STATES_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[str]
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    duration_ms: int
    pattern: str
    def __init__(self, states: _Optional[_Iterable[str]] = ..., producer_ids: _Optional[_Iterable[int]] = ..., duration_ms: _Optional[int] = ..., pattern: _Optional[str] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("transactions", "unknown_states")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_STATES_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionListing]
    unknown_states: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionListing, _Mapping]]] = ..., unknown_states: _Optional[_Iterable[str]] = ...) -> None: ...

class TransactionListing(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "state")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    state: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., state: _Optional[str] = ...) -> None: ...

class WriteTxnMarkersRequest(_message.Message):
    __slots__ = ("markers",)
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[TxnMarker]
    def __init__(self, markers: _Optional[_Iterable[_Union[TxnMarker, _Mapping]]] = ...) -> None: ...

class TxnMarker(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "is_committed", "coordinator_epoch", "partitions", "transaction_version", "decided_ms")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_MS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[MarkedPartition]
    transaction_version: int
    decided_ms: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., is_committed: _Optional[bool] = ..., coordinator_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[MarkedPartition, _Mapping]]] = ..., transaction_version: _Optional[int] = ..., decided_ms: _Optional[int] = ...) -> None: ...

class MarkedPartition(_message.Message):
    __slots__ = ("topic", "partition", "topic_id", "leader_epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[str] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class WriteTxnMarkersResponse(_message.Message):
    __slots__ = ("markers",)
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[TxnMarkerResult]
    def __init__(self, markers: _Optional[_Iterable[_Union[TxnMarkerResult, _Mapping]]] = ...) -> None: ...

class TxnMarkerResult(_message.Message):
    __slots__ = ("producer_id", "partitions")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    partitions: _containers.RepeatedCompositeFieldContainer[MarkedPartitionResult]
    def __init__(self, producer_id: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[MarkedPartitionResult, _Mapping]]] = ...) -> None: ...

class MarkedPartitionResult(_message.Message):
    __slots__ = ("topic", "partition", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: _common_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class EndHangingTransactionRequest(_message.Message):
    __slots__ = ("topic", "partition", "topic_id", "producer_id", "producer_epoch", "start_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    topic_id: str
    producer_id: int
    producer_epoch: int
    start_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ...) -> None: ...

class EndHangingTransactionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
