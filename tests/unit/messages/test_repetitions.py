"""The answer to a repetition, by the rows of the table: item by item, and never of a request that only checks."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import (
    InvalidPartitionsError,
    NoReassignmentInProgressError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicIdError,
)
from penstock.messages.client_apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
)
from penstock.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignmentResult,
)
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicResult,
)

OTHER = PolicyViolationError("no")
FINE = TopicResult("fine", "id", None, 3, 1)
REFUSED = TopicResult("refused", "id", OTHER)


def topics(made: Any, *results: TopicResult) -> Any:
    return made((FINE, *results, REFUSED), metadata_offset=9)


def test_topics_that_more_partitions_were_added_to_before_are_told_from_those_that_never_had_so_many() -> None:
    there = TopicResult("there", "id", InvalidPartitionsError("has 6"), 6, 1)
    never = TopicResult("never", "", InvalidPartitionsError("has 7"))
    answer = topics(CreatePartitionsResponse, there, never)
    answered = CREATE_PARTITIONS.answer_to_both(CreatePartitionsRequest(), answer)
    assert answered == topics(CreatePartitionsResponse, TopicResult("there", "id", None, 6, 1), never)


def test_a_topic_that_is_gone_was_deleted_and_the_other_errors_stay() -> None:
    answer = topics(DeleteTopicsResponse, TopicResult("", "gone", UnknownTopicIdError("unknown")))
    answered = DELETE_TOPICS.answer_to_both(DeleteTopicsRequest(), answer)
    assert answered == topics(DeleteTopicsResponse, TopicResult("", "gone"))


def test_a_topic_that_exists_is_still_an_error_that_says_whose_it_may_be_once() -> None:
    answer = topics(CreateTopicsResponse, TopicResult("there", "", TopicExistsError("it exists")))
    answered = CREATE_TOPICS.answer_to_both(CreateTopicsRequest(), answer)
    again = CREATE_TOPICS.answer_to_both(CreateTopicsRequest(), answered)  # by the broker, and by the client
    assert [topic.error for topic in again.topics if topic.name != "there"] == [None, OTHER]
    error = again.topics[1].error
    assert isinstance(error, TopicExistsError) and str(error).count("an earlier attempt") == 1


def test_a_reassignment_that_is_not_under_way_was_cancelled() -> None:
    over = ReassignmentResult("t", 0, NoReassignmentInProgressError("none"))
    answer = AlterPartitionReassignmentsResponse((over, ReassignmentResult("t", 1, OTHER)), 9)
    answered = ALTER_PARTITION_REASSIGNMENTS.answer_to_both(AlterPartitionReassignmentsRequest(), answer)
    assert [result.error for result in answered.partitions] == [None, OTHER]


@pytest.mark.parametrize(
    ("api", "request_", "answer"),
    [
        (
            CREATE_TOPICS,
            CreateTopicsRequest(validate_only=True),
            topics(CreateTopicsResponse, TopicResult("there", "", TopicExistsError("it exists"))),
        ),
        (
            CREATE_PARTITIONS,
            CreatePartitionsRequest(validate_only=True),
            topics(CreatePartitionsResponse, TopicResult("there", "id", InvalidPartitionsError("has 6"), 6, 1)),
        ),
    ],
)
def test_the_repetition_of_a_request_that_only_checks_is_read_as_it_is(api: Any, request_: Any, answer: Any) -> None:
    assert api.answer_to_both(request_, answer) is answer
