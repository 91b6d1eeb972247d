"""Produce (key 0): records of Kafka's clients on their way to the leaders of their partitions.

The records stay the bytes of the frame. Only the first bytes of each partition's batch are looked at here, for the
rules that are the protocol's and not the log's, whose own clients may do otherwise:

    one batch for a partition, and that whole      else INVALID_RECORD (Kafka, from version 3 on)
    message format 0 or 1                          INVALID_RECORD; in versions 0 to 2, which have nothing else,
                                                   UNSUPPORTED_FOR_MESSAGE_FORMAT
    zstd before version 7                          UNSUPPORTED_COMPRESSION_TYPE
    a batch of a transaction without an id         TRANSACTIONAL_ID_AUTHORIZATION_FAILED; with an empty one
                                                   INVALID_REQUEST

A producer of transaction version 2 (KIP-890), from version 12 on, adds no partition to its transaction: the leader does
it with the first batch. Below that the leader looks whether the producer has. Everything else is the log's to say. A
partition that is named twice is appended twice, in order, and answered twice.
With acks=0 nothing is answered. If something failed then, the connection ends, as in Kafka: its client learns by that
that it must look for the leaders anew. Not here: appending and acks (`broker/apis/producing/produce.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import count
from struct import Struct
from typing import Final, NamedTuple

from broker.apis.producing.produce import TIMEOUT_MS_MAX
from broker.kafka.api_row import RECORD_ELEMENTS_MAX, always_pipelined, serves
from broker.kafka.apis.asked_topics import add_leader, no_partition, topic_named, topic_with_id, unless_elsewhere
from broker.kafka.errors import Code, code_of, leader_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, ConnectionEnds, MakePlan, Plan, is_pause_due
from broker.kafka.schemas.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeaderIdAndEpoch,
    TopicProduceData,
    TopicProduceResponse,
)
from metadata.image import TopicImage
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedCompressionTypeError,
)
from penstock.messages import produce as messages
from penstock.messages.client_apis import PRODUCE
from penstock.messages.security.acls import Operation
from penstock.record.batch import CODEC_MASK, LENGTH_OVERHEAD_BYTES, MAGIC, TRANSACTIONAL_BIT, Buffer
from penstock.record.codecs import Codec
from penstock.types import NO_OFFSET, TopicPartition

FIRST_WITH_MAGIC_2: Final = 3
FIRST_WITH_ZSTD: Final = 7
FIRST_WITH_LEADERS: Final = 10
FIRST_WITHOUT_ADDING: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
_HEAD: Final = Struct(">8xi4xB4xh")
"""The first bytes of a batch: its length, magic and attributes (penstock/record/batch.py)."""


class PartitionRefusal(NamedTuple):
    """The error of a partition, in Kafka's terms."""

    code: int
    message: str | None


_OLD_FORMAT: Final = PartitionRefusal(
    Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, "versions below 3 carry the message formats 0 and 1, which are not supported"
)
_NO_TRANSACTIONAL_ID: Final = PartitionRefusal(
    TransactionalIdAuthorizationFailedError.code,
    "the batch is part of a transaction, and the request has no transactional id",
)
_EMPTY_TRANSACTIONAL_ID: Final = PartitionRefusal(
    InvalidRequestError.code, "the batch is part of a transaction, and the request's transactional id is empty"
)


def produce_plan(parts: PlanParts) -> MakePlan:
    """Makes the plan of a request."""

    def plan(asked: Asked, body: ProduceRequest) -> Plan:
        if body.transactional_id:
            parts.rights.check_transactional_id(asked.caller, PRODUCE.name, body.transactional_id)
        produced = _Produced(asked, parts)
        yield from produced.take(body)
        if produced.has_records:
            timeout_ms = min(max(body.timeout_ms, 0), TIMEOUT_MS_MAX)
            try:
                request = messages.ProduceRequest(
                    body.acks,
                    timeout_ms,
                    produced.give_records(),
                    transactional_id=body.transactional_id or "",
                    adds_partitions=asked.version >= FIRST_WITHOUT_ADDING,
                )
                answer = yield Ask(PRODUCE.name, request)
            except ApiError as error:
                produced.failed(error)
            else:
                produced.answered(answer.partitions if body.acks else answer.unanswered)
        if body.acks:
            return produced.response
        if produced.first_failure is not None:
            raise ConnectionEnds(f"Produce with acks=0: {produced.first_failure}")
        return None

    return plan


def produce_failed(asked: Asked, body: ProduceRequest, error: ApiError) -> ProduceResponse:
    """The answer to a request that failed before its plan began: the error for each of its partitions."""
    if not body.acks:
        raise ConnectionEnds(f"Produce with acks=0: {error}")
    refusal = _refusal_of(error, asked.version)
    response = ProduceResponse()
    for data in body.topic_data:
        answers = [PartitionProduceResponse(index=part.index) for part in data.partition_data]
        response.responses.append(
            TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)
        )
        for answer in answers:
            _refuse(answer, refusal)
    return response


def refused_batch(records: Buffer | None, version: int, transactional_id: str | None) -> PartitionRefusal | None:
    """The refusal if the protocol forbids the records of one partition; None if it does not."""
    if version < FIRST_WITH_MAGIC_2:
        return _OLD_FORMAT
    if records is None or len(records) < _HEAD.size:
        size = 0 if records is None else len(records)
        why = f"{size} bytes are no record batch: Produce has exactly one for each partition"
        return _refusal_of(InvalidRecordError(why), version)
    length, magic, attributes = _HEAD.unpack_from(records)
    if magic == MAGIC and length + LENGTH_OVERHEAD_BYTES == len(records):
        if attributes & TRANSACTIONAL_BIT and not transactional_id:
            return _NO_TRANSACTIONAL_ID if transactional_id is None else _EMPTY_TRANSACTIONAL_ID
        if version < FIRST_WITH_ZSTD and attributes & CODEC_MASK == Codec.ZSTD:
            why = f"Produce has zstd from version {FIRST_WITH_ZSTD} on, and the request is of version {version}"
            return _refusal_of(UnsupportedCompressionTypeError(why), version)
        return None
    if magic > MAGIC:
        return _refusal_of(CorruptMessageError(f"magic is {magic}, only {MAGIC} is known"), version)
    if magic < MAGIC:
        why = f"the message format is {magic}, and Produce has only format {MAGIC} from version 3 on"
    else:
        why = f"a batch of {length + LENGTH_OVERHEAD_BYTES} bytes is announced, and {len(records)} are there:"
        why += " Produce has exactly one whole batch for each partition"
    return _refusal_of(InvalidRecordError(why), version)


class _Produced:
    """The way of one request: the records for the log, and the answer, in the order of the request."""

    __slots__ = (
        "_asked",
        "_image",
        "_image_now",
        "_node_id",
        "_open",
        "_records",
        "_rights",
        "first_failure",
        "response",
    )

    def __init__(self, asked: Asked, parts: PlanParts) -> None:
        self._asked, self._image, self._node_id, self._rights = asked, parts.image(), parts.node_id, parts.rights
        self._image_now = parts.image
        self._records: list[messages.PartitionRecords] = []
        self._open: list[tuple[PartitionProduceResponse, str]] = []
        """The answers about the records that the log is given, and their topics' ids."""
        self.response = ProduceResponse()
        self.first_failure: str | None = None

    @property
    def has_records(self) -> bool:
        return bool(self._records)

    def give_records(self) -> list[messages.PartitionRecords]:
        """Gives away the records, and keeps none: the frame must be free as soon as the log has them."""
        records, self._records = self._records, []
        return records

    def take(self, body: ProduceRequest) -> Generator[Ask, None, None]:
        """Gives every partition its place in the answer. The request lets go of its records."""
        transactional_id, numbers = body.transactional_id, count()
        for data in body.topic_data:
            topic = self._topic(data)
            answers = list[PartitionProduceResponse]()
            for part in data.partition_data:
                if is_pause_due(next(numbers)):
                    yield PAUSE
                answers.append(self._taken(topic, part, transactional_id))
            row = TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)
            self.response.responses.append(row)

    def _topic(self, data: TopicProduceData) -> TopicImage | PartitionRefusal:
        version = self._asked.version
        try:
            if version >= FIRST_WITH_TOPIC_IDS:
                return self._with_id(data.topic_id)
            self._rights.check_topic(self._asked.caller, PRODUCE.name, Operation.WRITE, data.name)
            return topic_named(self._image, data.name)
        except ApiError as error:
            return _refusal_of(error, version)

    def _with_id(self, topic_id: str) -> TopicImage:
        """The topic with this id. A refusal does not tell the name: a caller that may not write there may not know it
        either."""
        topic, caller = topic_with_id(self._image, topic_id), self._asked.caller
        try:
            self._rights.check_topic(caller, PRODUCE.name, Operation.WRITE, topic.name)
        except TopicAuthorizationFailedError:
            raise TopicAuthorizationFailedError(
                f"{caller.principal} may not Write on the topic with the id {topic_id}; an administrator can allow it:"
                " `penstock acls create`, unless an ACL denies it: `penstock acls list`"
            ) from None
        return topic

    def _taken(
        self, topic: TopicImage | PartitionRefusal, part: PartitionProduceData, transactional_id: str | None
    ) -> PartitionProduceResponse:
        answer, version = PartitionProduceResponse(index=part.index), self._asked.version
        records, part.records = part.records, None
        refusal: PartitionRefusal | None
        if isinstance(topic, PartitionRefusal):
            refusal = topic
        elif part.index not in topic.partitions:
            refusal = _refusal_of(no_partition(topic, part.index), version)
        else:
            refusal = refused_batch(records, version, transactional_id)
            if refusal is None:
                key = TopicPartition(topic.name, part.index)
                self._records.append(messages.PartitionRecords(key, topic.topic_id, records or b""))
                self._open.append((answer, topic.topic_id))
                return answer
        self._fail(answer, refusal)
        return answer

    def answered(self, results: Sequence[messages.PartitionProduceResult]) -> None:
        """The log's results, in the order of `give_records`."""
        for (answer, topic_id), result in zip(self._open, results, strict=True):
            answer.log_start_offset = result.log_start_offset
            if result.error is None:
                answer.base_offset, answer.log_append_time_ms = result.base_offset, result.log_append_time_ms
            else:
                error = unless_elsewhere(self._image_now(), self._node_id, result.partition, topic_id, result.error)
                self._fail(answer, _refusal_of(error, self._asked.version))
                self._explain(answer, error)

    def failed(self, error: ApiError) -> None:
        """The log's answer is an error for all that it was asked for."""
        refusal = _refusal_of(error, self._asked.version)
        for answer, _ in self._open:
            self._fail(answer, refusal)

    def _fail(self, answer: PartitionProduceResponse, refusal: PartitionRefusal) -> None:
        _refuse(answer, refusal)
        if self.first_failure is None:
            self.first_failure = refusal.message

    def _explain(self, answer: PartitionProduceResponse, error: ApiError) -> None:
        """The records because of which nothing was appended, and the leader that the client should ask."""
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=bad.batch_index, batch_index_error_message=bad.message)
            for bad in error.record_errors
        ]
        leader = leader_of(error, self._asked.caller.listener)
        if leader is None or self._asked.version < FIRST_WITH_LEADERS:
            return
        answer.current_leader = ProduceResponseLeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        add_leader(self.response.node_endpoints, self._image, leader)


def _refusal_of(error: ApiError, version: int) -> PartitionRefusal:
    return PartitionRefusal(code_of(error, PRODUCE.name, version), message_of(error))


def _refuse(answer: PartitionProduceResponse, refusal: PartitionRefusal) -> None:
    answer.error_code, answer.error_message = refusal
    answer.base_offset = NO_OFFSET


SERVED: Final = (
    serves(
        ProduceRequest,
        ProduceResponse,
        (0, 13),
        produce_plan,
        failed=produce_failed,
        elements_max=RECORD_ELEMENTS_MAX,
        bytes_max=None,
        is_paced=False,
        is_pipelined=always_pipelined,
    ),
)
