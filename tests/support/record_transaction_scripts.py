"""Records what a real Kafka answers to the scripts of transactional producers, and the log that it wrote.

    python -m tests.support.record_transaction_scripts ADDRESS > kafka_4_3_1.txt

Its broker needs transaction.abort.timed.out.transaction.cleanup.interval.ms=100, transaction.state.log.num.partitions=1
and the topic `orders` with 4 partitions. The output is kept in tests/unit/broker/transactions/kafka_4_3_1.txt, the
segment of `__transaction_state` beside it.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from broker.kafka.schemas.producers import InitProducerIdRequest, InitProducerIdResponse
from broker.kafka.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
)
from broker.transactions.transaction_metadata import EPOCH_MAX
from penstock.wire_errors.api_error import ERRORS
from tests.support.kafka_socket import KafkaSocket
from tests.support.transaction_scripts import SCRIPTS, TIMEOUT_MS, Answer, Step, transcript

_LOADS = {14, 15, 16}


class KafkaSide:
    """A real broker."""

    def __init__(self, connection: KafkaSocket) -> None:
        self._ask = connection.ask
        self._wait_for_coordinators()

    def act(self, name: str, step: Step) -> Answer:
        answer: Answer = getattr(self, f"_{step.verb}")(name, step)
        return answer

    def state(self, name: str) -> tuple[str, int, tuple[str, ...]]:
        self._wait_while(name, "Prepare")
        time.sleep(0.1)
        one = self._described(name)
        partitions = sorted((topic.topic, number) for topic in one.topics for number in topic.partitions)
        if one.error_code:
            return _error(one.error_code), -1, ()
        return one.transaction_state, one.producer_epoch, tuple(f"{topic}-{number}" for topic, number in partitions)

    def _described(self, name: str) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        return self._ask(request, 0, DescribeTransactionsResponse).transaction_states[0]

    def _init(self, name: str, step: Step) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=step.timeout_ms,
            producer_id=step.named[0],
            producer_epoch=step.named[1],
        )
        answer = self._ask(request, 4, InitProducerIdResponse)
        return Answer(_error(answer.error_code), (answer.producer_id, answer.producer_epoch))

    def _exhaust(self, name: str, step: Step) -> Answer:
        answer = Answer("NONE")
        while answer.producer is None or answer.producer[1] < EPOCH_MAX - 1:
            answer = self._init(name, step._replace(timeout_ms=TIMEOUT_MS))
        return answer

    def _add(self, name: str, step: Step) -> Answer:
        topics: dict[str, list[int]] = {}
        for topic, number in step.partitions:
            topics.setdefault(topic, []).append(number)
        of_topics = [AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in topics.items()]
        if step.version == 1 and step.verb == "add":
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=step.sender[0],
                v3_and_below_producer_epoch=step.sender[1],
                v3_and_below_topics=of_topics,
            )
            results = self._ask(request, 3, AddPartitionsToTxnResponse).results_by_topic_v3_and_below
        else:
            one = AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=step.sender[0],
                producer_epoch=step.sender[1],
                verify_only=step.verb == "verify",
                topics=of_topics,
            )
            answer = self._ask(AddPartitionsToTxnRequest(transactions=[one]), 5, AddPartitionsToTxnResponse)
            results = answer.results_by_transaction[0].topic_results
        found = sorted(
            (topic.name, one.partition_index, _error(one.partition_error_code))
            for topic in results
            for one in topic.results_by_partition
        )
        return Answer(" ".join(f"{topic}-{number}={error}" for topic, number, error in found))

    _verify = _add

    def _group(self, name: str, step: Step) -> Answer:
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=step.sender[0], producer_epoch=step.sender[1], group_id=step.args[0]
        )
        return Answer(_error(self._ask(request, 3, AddOffsetsToTxnResponse).error_code))

    def _end(self, name: str, step: Step) -> Answer:
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=step.sender[0],
            producer_epoch=step.sender[1],
            committed="commit" in step.args,
        )
        answer = self._ask(request, 5 if step.version == 2 else 4, EndTxnResponse)
        return Answer(_error(answer.error_code), (answer.producer_id, answer.producer_epoch))

    def _timeout(self, name: str, step: Step) -> Answer:
        self._wait_while(name, "Ongoing")
        return Answer("NONE")

    def _wait_while(self, name: str, state: str) -> None:
        while self._described(name).transaction_state.startswith(state):
            time.sleep(0.02)

    def _wait_for_coordinators(self) -> None:
        """Until they are found (which makes their topics), and serve."""
        for kind, key in ((1, next(iter(SCRIPTS))), (0, "g")):
            find = FindCoordinatorRequest(key=key, key_type=kind)
            while self._ask(find, 3, FindCoordinatorResponse).error_code:
                time.sleep(0.1)
        while self._described("nobody").error_code in _LOADS:
            time.sleep(0.1)
        while True:  # until a block of producer ids is there
            request = InitProducerIdRequest(transaction_timeout_ms=TIMEOUT_MS)
            if not self._ask(request, 4, InitProducerIdResponse).error_code:
                break
            time.sleep(0.1)
        time.sleep(1)


def _error(code: int) -> str:
    return ERRORS[code].kafka_name if code else "NONE"


if __name__ == "__main__":
    with KafkaSocket(sys.argv[1]) as broker:
        for line in transcript(KafkaSide(broker), sys.argv[2:] or SCRIPTS):
            print(line, flush=True)
