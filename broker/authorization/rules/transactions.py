"""The rules of the APIs of transactions.

A transaction whose partitions are not all permitted adds none of them: the others are answered with
OPERATION_NOT_ATTEMPTED, as in Kafka. A call that a broker makes for a producer was judged where the producer made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from broker.authorization.judge import Judge
from broker.authorization.rules.groups import refused_commit
from broker.authorization.rules.ruling import Ruling, transactional_id, without_refused
from penstock.errors import ApiError, OperationNotAttemptedError
from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.messages.transactions import listing, producers

_ID, _TOPIC = ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC


def writes_id(body: Any) -> Iterator[Need]:
    yield transactional_id(Operation.WRITE, body.transactional_id)


def adds_offsets(body: producers.AddOffsetsToTxnRequest) -> Iterator[Need]:
    yield transactional_id(Operation.WRITE, body.transactional_id)
    yield Need(Operation.READ, ResourceType.GROUP, body.group_id)


def add_partitions_rule(judge: Judge, body: producers.AddPartitionsToTxnRequest) -> Ruling:
    refusals = [_refused_partitions(judge, one) for one in body.transactions]
    if not any(refusals):
        return Ruling(body)
    kept = tuple(one for one, refused in zip(body.transactions, refusals, strict=True) if not refused)

    def amend(response: producers.AddPartitionsToTxnResponse) -> producers.AddPartitionsToTxnResponse:
        known, merged = iter(response.transactions), []
        for one, refused in zip(body.transactions, refusals, strict=True):
            if refused:
                merged.append(producers.TransactionPartitionResults(one.transactional_id, refused))
            else:
                merged += [next(known)]
        return replace(response, transactions=tuple(merged))

    answer = producers.AddPartitionsToTxnResponse()
    return Ruling(replace(body, transactions=kept) if kept else None, amend, answer)


def _refused_partitions(
    judge: Judge, one: producers.TransactionPartitions
) -> tuple[producers.TransactionPartitionResult, ...]:
    """A result for each partition, if one is refused; nothing otherwise."""
    error = judge.refusal(Operation.WRITE, _ID, one.transactional_id)
    if error is not None:
        return tuple(producers.TransactionPartitionResult(part, error) for part in one.partitions)
    errors = [judge.refusal(Operation.WRITE, _TOPIC, part.topic) for part in one.partitions]
    if not any(errors):
        return ()
    others = OperationNotAttemptedError("other partitions of the request are not permitted, so none was added")
    return tuple(
        producers.TransactionPartitionResult(part, error or others)
        for part, error in zip(one.partitions, errors, strict=True)
    )


def txn_offset_commit_rule(judge: Judge, body: producers.TxnOffsetCommitRequest) -> Ruling:
    judge.require(Operation.WRITE, _ID, body.transactional_id)
    judge.require(Operation.READ, ResourceType.GROUP, body.group_id)
    errors = [judge.refusal(Operation.READ, _TOPIC, part.partition.topic) for part in body.partitions]
    answer = producers.TxnOffsetCommitResponse()
    return without_refused(body, "partitions", errors, answer, "partitions", refused_commit)


def describe_transactions_rule(judge: Judge, body: listing.DescribeTransactionsRequest) -> Ruling:
    """The partitions are told of topics that the caller may describe."""
    errors = [judge.refusal(Operation.DESCRIBE, _ID, one) for one in body.transactional_ids]
    answer = listing.DescribeTransactionsResponse()
    ruling = without_refused(body, "transactional_ids", errors, answer, "transactions", _not_described)

    def amend(response: listing.DescribeTransactionsResponse) -> listing.DescribeTransactionsResponse:
        response = replace(response, transactions=tuple(_described(judge, one) for one in response.transactions))
        return response if ruling.amend is None else ruling.amend(response)

    return ruling._replace(amend=amend)


def _not_described(name: str, error: ApiError) -> listing.TransactionDescription:
    return listing.TransactionDescription(name, error)


def _described(judge: Judge, one: listing.TransactionDescription) -> listing.TransactionDescription:
    visible = tuple(part for part in one.partitions if judge.may(Operation.DESCRIBE, _TOPIC, part.topic))
    return replace(one, partitions=visible)
