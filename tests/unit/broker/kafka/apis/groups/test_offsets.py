"""Promises of committed offsets at Kafka's listener: each partition has its place and its error, by name and by id."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from broker.kafka.api_row import failed_answer
from broker.kafka.apis.groups.offset_commit import offset_commit
from broker.kafka.apis.groups.offset_delete import offset_delete
from broker.kafka.apis.groups.offset_fetch import offset_fetch
from broker.kafka.errors import code_of
from broker.kafka.plan import PAUSED_EVERY
from broker.kafka.schemas.groups import offsets as schemas
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    RequestTimedOutError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
)
from penstock.messages.client_apis import ASKED_MAX, NAMES_MAX, PARTITIONS_MAX
from penstock.messages.groups import offsets as messages
from penstock.types import TopicPartition
from tests.support.kafka_plans import ME, asked, ended, first_ask, next_ask, parts_of, pauses, read_by_client, topic_of
from tests.support.kafka_rows import GROUPS, rows_over

T, U, NONE = "T" * 21 + "A", "U" * 21 + "A", "N" * 21 + "A"
PARTS = parts_of(topic_of("t", T, ME, ME), topic_of("u", U, ME))
ROWS = {row.name: row for row in rows_over(PARTS, *GROUPS)}
commit, fetch, delete = (partial(one, PARTS) for one in (offset_commit, offset_fetch, offset_delete))
IDS = {"t": T, "u": U, "gone": NONE}
ASKED_AGAIN = [("t", 0, -1000, "", 88), ("t", 1, -1000, "", 88)]
"""The partitions beside an error of their group, as librdkafka asks for them again."""


def committed(version: int, *offsets: tuple[str, int, int], **fields: Any) -> schemas.OffsetCommitRequest:
    topics = [
        schemas.OffsetCommitRequestTopic(
            **({"topic_id": IDS[topic]} if version >= 10 else {"name": topic}),
            partitions=[
                schemas.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    **({"committed_leader_epoch": 4} if version >= 6 else {}),
                )
            ],
        )
        for topic, index, offset in offsets
    ]
    given = {"group_id": "g", "member_id": "m", "generation_id_or_member_epoch": 7, "topics": topics}
    return schemas.OffsetCommitRequest(**{**given, **fields})


def codes(answer: Any, version: int) -> list[tuple[str, int, int]]:
    names = {topic_id: name for name, topic_id in IDS.items()}
    return [
        (topic.name or names[topic.topic_id], part.partition_index, part.error_code)
        for topic in read_by_client(answer, version).topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_of_each_version_has_an_outcome_for_each_partition(version: int) -> None:
    body = committed(version, ("t", 0, 5), ("gone", 0, 5), ("t", 9, 5), ("u", 0, 6), ("t", 1, 7))
    plan = commit(asked(version), body)
    request = first_ask(plan, "OffsetCommit")
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 7)
    assert request.knows_stale_epoch == (version >= 9)
    epoch = 4 if version >= 6 else -1
    assert request.partitions == (
        messages.OffsetCommitPartition(TopicPartition("t", 0), 5, epoch, "", T),
        messages.OffsetCommitPartition(TopicPartition("u", 0), 6, epoch, "", U),
        messages.OffsetCommitPartition(TopicPartition("t", 1), 7, epoch, "", T),
    )
    errors: tuple[ApiError | None, ...] = (None, OffsetMetadataTooLargeError(), None)
    results = zip(request.partitions, errors, strict=True)
    answer = messages.OffsetCommitResponse(
        tuple(messages.OffsetCommitResult(part.partition, error) for part, error in results)
    )
    assert codes(ended(plan, answer), version) == [
        ("t", 0, 0),
        ("t", 9, 3),
        ("t", 1, 0),
        ("gone", 0, 100 if version >= 10 else 3),
        ("u", 0, 12),
    ]


def test_a_commit_says_its_retention_its_instance_and_its_text() -> None:
    body = committed(4, ("t", 0, 5), retention_time_ms=1_000)
    assert first_ask(commit(asked(4), body), "OffsetCommit").retention_ms == 1_000
    body = committed(7, ("t", 0, 5), group_instance_id="i")
    body.topics[0].partitions[0].committed_metadata = "here"
    request = first_ask(commit(asked(7), body), "OffsetCommit")
    assert (request.group_instance_id, request.partitions[0].metadata) == ("i", "here")


@pytest.mark.parametrize(
    ("version", "error", "code"),
    [
        (8, GroupIdNotFoundError(), IllegalGenerationError.code),
        (9, GroupIdNotFoundError(), 69),
        (9, StaleMemberEpochError(), 113),
        (10, CoordinatorNotAvailableError(), 15),
    ],
)
def test_an_error_of_a_whole_commit_is_told_for_each_of_its_partitions(
    version: int, error: ApiError, code: int
) -> None:
    plan = commit(asked(version), committed(version, ("t", 0, 5), ("t", 9, 5), ("u", 0, 5)))
    next(plan)
    assert codes(ended(plan, error), version) == [("t", 0, code), ("t", 9, 3), ("u", 0, code)]
    failed = failed_answer(ROWS["OffsetCommit"], asked(version), committed(version, ("t", 0, 5), ("gone", 0, 5)), error)
    assert codes(failed, version) == [("t", 0, code), ("gone", 0, code)]


def test_nothing_is_asked_where_there_is_nothing_to_commit() -> None:
    with pytest.raises(StopIteration) as end:
        next(commit(asked(9), committed(9, ("gone", 0, 5))))
    assert codes(end.value.value, 9) == [("gone", 0, 3)]


def test_many_partitions_are_committed_in_turns() -> None:
    topics = [
        schemas.OffsetCommitRequestTopic(
            name="t",
            partitions=[
                schemas.OffsetCommitRequestPartition(partition_index=n % 2, committed_offset=n)
                for n in range(PARTITIONS_MAX + 1)
            ],
        )
    ]
    plan = commit(asked(9), schemas.OffsetCommitRequest(group_id="g", topics=topics))
    assert len(first_ask(plan, "OffsetCommit").partitions) == PARTITIONS_MAX
    second = plan.throw(UnknownMemberIdError())
    assert [part.offset for part in second.body.partitions] == [PARTITIONS_MAX]
    answer = ended(plan, messages.OffsetCommitResponse((messages.OffsetCommitResult(TopicPartition("t", 0)),)))
    assert [code for _, _, code in codes(answer, 9)] == [25] * PARTITIONS_MAX + [0]


@pytest.mark.parametrize(("partitions", "shares"), [(1, True), (PARTITIONS_MAX, True), (PARTITIONS_MAX + 1, False)])
def test_the_next_commit_is_read_meanwhile_but_of_one_that_is_asked_in_turns(partitions: int, shares: bool) -> None:
    """A later commit of the same place must not come between the turns."""
    body = committed(9, *(("t", n % 2, n) for n in range(partitions)))
    assert ROWS["OffsetCommit"].is_pipelined(body) is shares
    assert not any(row.is_pipelined(body) for name, row in ROWS.items() if name != "OffsetCommit")


# -- fetches -----------------------------------------------------------------------------------------------------------


def asked_offsets(version: int, **groups: dict[str, list[int]] | None) -> schemas.OffsetFetchRequest:
    if version < 8:
        ((group, topics),) = groups.items()
        wanted = [
            schemas.OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in (topics or {}).items()
        ]
        return schemas.OffsetFetchRequest(group_id=group, topics=None if topics is None else wanted)
    return schemas.OffsetFetchRequest(
        groups=[
            schemas.OffsetFetchRequestGroup(
                group_id=group,
                **({"member_id": "m", "member_epoch": 7} if version >= 9 else {}),
                topics=None
                if topics is None
                else [
                    schemas.OffsetFetchRequestTopics(
                        **({"topic_id": IDS[name]} if version >= 10 else {"name": name}), partition_indexes=some
                    )
                    for name, some in topics.items()
                ],
            )
            for group, topics in groups.items()
        ]
    )


def found(topic: str, index: int, offset: int = -1, error: ApiError | None = None) -> messages.OffsetFetchResult:
    epoch, text = (4, "here") if offset >= 0 else (-1, "")
    return messages.OffsetFetchResult(TopicPartition(topic, index), error, offset, epoch, text)


def offsets_of(answer: Any) -> list[tuple[str, int, int, str, int]]:
    """The offsets of an answer, or of a group in it."""
    names = {topic_id: name for name, topic_id in IDS.items()}
    return [
        ((getattr(topic, "topic_id", "") and names[topic.topic_id]) or topic.name, *fields)
        for topic in answer.topics
        for part in topic.partitions
        for fields in ((part.partition_index, part.committed_offset, part.metadata, part.error_code),)
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_is_asked_for_in_older_versions(version: int) -> None:
    plan = fetch(asked(version), asked_offsets(version, g={"t": [1, 0], "gone": [3]}))
    request = first_ask(plan, "OffsetFetch")
    wanted = (TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("gone", 3))
    assert request.groups == (messages.OffsetFetchGroup("g", wanted),)
    results = (found("t", 1, 5), found("t", 0), found("gone", 3))
    answer = messages.OffsetFetchResponse((messages.GroupOffsets("g", None, results),))
    read = read_by_client(ended(plan, answer), version)
    assert read.error_code == 0
    assert offsets_of(read) == [("t", 1, 5, "here", 0), ("t", 0, -1, "", 0), ("gone", 3, -1, "", 0)]
    assert read.topics[0].partitions[0].committed_leader_epoch == (4 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(8, 11))
def test_each_of_many_groups_has_its_offsets_or_its_error(version: int) -> None:
    plan = fetch(asked(version), asked_offsets(version, g={"t": [0]}, h={"t": [0]}, i=None))
    request = first_ask(plan, "OffsetFetch")
    member = ("m", 7) if version >= 9 else ("", -1)
    assert [(one.group_id, one.all_partitions, one.member_id, one.member_epoch) for one in request.groups] == [
        ("g", False, *member),
        ("h", False, *member),
        ("i", True, *member),
    ]
    answer = (
        messages.GroupOffsets("g", None, (found("t", 0, 5),)),
        messages.GroupOffsets("h", StaleMemberEpochError()),
        messages.GroupOffsets("i", None, (found("u", 0, 6), found("lost", 0, 1), found("t", 0, 7))),
    )
    g, h, i = read_by_client(ended(plan, messages.OffsetFetchResponse(answer)), version).groups
    assert [(one.group_id, one.error_code) for one in (g, h, i)] == [("g", 0), ("h", 113), ("i", 0)]
    assert (offsets_of(g), offsets_of(h)) == ([("t", 0, 5, "here", 0)], [("t", 0, -1, "", 113)])
    lost = [] if version >= 10 else [("lost", 0, 1, "here", 0)]  # it has no id any more
    assert offsets_of(i) == [("u", 0, 6, "here", 0), *lost, ("t", 0, 7, "here", 0)]


def test_an_id_that_no_topic_has_is_told_so() -> None:
    plan = fetch(asked(10), asked_offsets(10, g={"gone": [0], "t": [0]}))
    assert first_ask(plan, "OffsetFetch").groups[0].partitions == (TopicPartition("t", 0),)
    answer = messages.OffsetFetchResponse((messages.GroupOffsets("g", None, (found("t", 0, 5),)),))
    (group,) = read_by_client(ended(plan, answer), 10).groups
    assert offsets_of(group) == [("gone", 0, -1, "", 100), ("t", 0, 5, "here", 0)]


@pytest.mark.parametrize("version", range(1, 11))
def test_an_error_of_a_whole_fetch_is_where_its_version_has_a_place(version: int) -> None:
    body, error = asked_offsets(version, g={"t": [0, 1]}), CoordinatorNotAvailableError()
    plan = fetch(asked(version), body)
    next(plan)
    for answer in (ended(plan, error), failed_answer(ROWS["OffsetFetch"], asked(version), body, error)):
        read = read_by_client(answer, version)
        if version == 1:
            assert offsets_of(read) == [("t", 0, -1, "", 16), ("t", 1, -1, "", 16)]
        elif version < 7:
            assert (read.error_code, read.topics) == (16, [])
        elif version == 7:
            assert (read.error_code, offsets_of(read)) == (16, ASKED_AGAIN)
        else:
            assert [(one.group_id, one.error_code, offsets_of(one)) for one in read.groups] == [("g", 16, ASKED_AGAIN)]


@pytest.mark.parametrize("version", range(7, 11))
@pytest.mark.parametrize(
    ("error", "beside"),
    [
        (NotCoordinatorError(), 88),
        (CoordinatorLoadInProgressError(), 88),
        (RequestTimedOutError(), 88),  # told as NOT_COORDINATOR
        (StaleMemberEpochError(), 113),
        (UnknownMemberIdError(), None),
    ],
)
def test_beside_an_error_that_a_member_outlives_are_its_partitions_for_librdkafka_to_ask_again(
    version: int, error: ApiError, beside: int | None
) -> None:
    plan = fetch(asked(version), asked_offsets(version, g={"t": [0], "gone": [1]}))
    next(plan)
    read = read_by_client(ended(plan, messages.OffsetFetchResponse((messages.GroupOffsets("g", error),))), version)
    group = read.groups[0] if version >= 8 else read
    assert group.error_code == code_of(error, "OffsetFetch", version)
    offset = -1000 if beside == 88 else -1
    wanted = [] if beside is None else [("t", 0, offset, "", beside), ("gone", 1, offset, "", beside)]
    assert sorted(offsets_of(group)) == sorted(wanted)


@pytest.mark.parametrize("version", range(2, 8))
def test_all_offsets_of_a_group(version: int) -> None:
    plan = fetch(asked(version), asked_offsets(version, g=None))
    assert first_ask(plan, "OffsetFetch").groups == (messages.OffsetFetchGroup("g", (), True),)
    answer = messages.OffsetFetchResponse((messages.GroupOffsets("g", None, (found("t", 1, 5), found("t", 0, 4))),))
    assert offsets_of(read_by_client(ended(plan, answer), version)) == [("t", 1, 5, "here", 0), ("t", 0, 4, "here", 0)]


def test_whether_offsets_must_be_stable_is_asked() -> None:
    body = asked_offsets(7, g={"t": [0]})
    body.require_stable = True
    assert first_ask(fetch(asked(7), body), "OffsetFetch").require_stable


@pytest.mark.parametrize("version", range(7, 11))
def test_beside_an_offset_that_a_transaction_may_change_is_one_by_which_librdkafka_asks_again(version: int) -> None:
    plan = fetch(asked(version), asked_offsets(version, g={"t": [0, 1]}))
    next(plan)
    pending = messages.OffsetFetchResult(TopicPartition("t", 0), UnstableOffsetCommitError("not decided yet"))
    answer = messages.OffsetFetchResponse((messages.GroupOffsets("g", None, (pending, found("t", 1, 5))),))
    read = read_by_client(ended(plan, answer), version)
    group = read.groups[0] if version >= 8 else read
    assert offsets_of(group) == [("t", 0, -1000, "", 88), ("t", 1, 5, "here", 0)]


def test_many_partitions_and_groups_are_asked_for_in_turns() -> None:
    plan = fetch(asked(9), asked_offsets(9, g={"t": list(range(ASKED_MAX + 1))}, h={"t": [0]}))
    first = first_ask(plan, "OffsetFetch")
    assert [len(one.partitions) for one in first.groups] == [ASKED_MAX]
    results = tuple(found("t", n, n) for n in range(ASKED_MAX))
    second = next_ask(plan, messages.OffsetFetchResponse((messages.GroupOffsets("g", None, results),)))
    assert [(one.group_id, len(one.partitions)) for one in second.groups] == [("g", 1), ("h", 1)]
    answer = (messages.GroupOffsets("g", None, (found("t", ASKED_MAX, 8),)), messages.GroupOffsets("h"))
    g, h = ended(plan, messages.OffsetFetchResponse(answer)).groups
    assert [part.committed_offset for part in g.topics[0].partitions] == [*range(ASKED_MAX), 8]
    assert [part.committed_offset for part in h.topics[0].partitions] == [-1]
    many = fetch(asked(9), asked_offsets(9, **{f"g{n}": None for n in range(NAMES_MAX + 1)}))
    assert len(first_ask(many, "OffsetFetch").groups) == NAMES_MAX


@pytest.mark.parametrize("version", [2, 8, 10])
def test_an_answer_with_many_offsets_is_made_with_pauses_also_where_a_groups_name_is_all_that_was_asked(
    version: int,
) -> None:
    fields = {"groups": [schemas.OffsetFetchRequestGroup(group_id="g", topics=None)]}
    plan = fetch(
        asked(version), schemas.OffsetFetchRequest(**(fields if version >= 8 else {"group_id": "g", "topics": None}))
    )
    first_ask(plan, "OffsetFetch")
    results = tuple(found("t", n, n) for n in range(20 * PAUSED_EVERY))
    answer = messages.OffsetFetchResponse((messages.GroupOffsets("g", None, results),))
    assert pauses(plan, answer) >= 3 * 20, "each is looked at three times"


def test_many_groups_are_told_with_pauses() -> None:
    plan = fetch(asked(9), asked_offsets(9, **{f"g{n}": None for n in range(10 * PAUSED_EVERY)}))
    body = first_ask(plan, "OffsetFetch")
    answer = tuple(messages.GroupOffsets(one.group_id) for one in body.groups)
    assert pauses(plan, messages.OffsetFetchResponse(answer)) >= 9


# -- deletions ---------------------------------------------------------------------------------------------------------


def deletion(**topics: list[int]) -> schemas.OffsetDeleteRequest:
    return schemas.OffsetDeleteRequest(
        group_id="g",
        topics=[
            schemas.OffsetDeleteRequestTopic(
                name=name, partitions=[schemas.OffsetDeleteRequestPartition(partition_index=n) for n in some]
            )
            for name, some in topics.items()
        ],
    )


def test_an_offset_is_deleted_where_nobody_reads_the_topic() -> None:
    plan = delete(asked(0), deletion(t=[0, 9], gone=[0], u=[0]))
    request = first_ask(plan, "OffsetDelete")
    assert request == messages.OffsetDeleteRequest("g", (TopicPartition("t", 0), TopicPartition("u", 0)))
    response = (
        messages.OffsetDeleteResult(TopicPartition("t", 0), GroupSubscribedToTopicError()),
        messages.OffsetDeleteResult(TopicPartition("u", 0)),
    )
    answer = ended(plan, messages.OffsetDeleteResponse(response))
    assert codes(answer, 0) == [("t", 0, 86), ("t", 9, 3), ("gone", 0, 3), ("u", 0, 0)]
    assert answer.error_code == 0


@pytest.mark.parametrize(("error", "code"), [(GroupIdNotFoundError(), 69), (NotCoordinatorError(), 16)])
def test_an_error_of_a_whole_deletion_is_the_answers_own(error: ApiError, code: int) -> None:
    read = read_by_client(failed_answer(ROWS["OffsetDelete"], asked(0), deletion(t=[0]), error), 0)
    assert (read.error_code, read.topics) == (code, [])
