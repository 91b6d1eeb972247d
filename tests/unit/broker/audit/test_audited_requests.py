"""Administrative requests are told by one line each, whatever became of them; nothing else is, and no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker.apis.served_apis import AUDITED_OFTEN
from broker.audit.audit_log import LINES_MAX, AuditLog
from broker.audit.audited_requests import AuditedRequests
from broker.network.request_channel import Caller, Request
from penstock.errors import (
    ApiError,
    GroupIdNotFoundError,
    InvalidPartitionsError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.api import ADMINISTRATIVE
from penstock.messages.apis import APIS
from penstock.messages.elections import ElectLeadersRequest, ElectLeadersResponse
from penstock.messages.groups.classic_protocol import LeaveGroupRequest, LeaveGroupResponse, LeavingMember, LeftMember
from penstock.messages.groups.listing import DeleteGroupsRequest
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitResponse
from penstock.messages.log_dirs import AlterReplicaLogDirResult, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from penstock.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicResult,
)
from penstock.types import Endpoint, ListenerType, TopicPartition
from tests.support.machine import NOW_NS
from tests.support.sinks import Sink

ACTS_OF_CLIENTS = {
    "CreateTopics",
    "CreatePartitions",
    "DeleteTopics",
    "DeleteRecords",
    "AlterConfigs",
    "AlterClientQuotas",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "UnregisterBroker",
    "AlterReplicaLogDirs",
    "DeleteGroups",
    "OffsetDelete",
    "OffsetCommit",
    "LeaveGroup",
    "EndHangingTransaction",
    "AlterUserScramCredentials",
    "CreateAcls",
    "DeleteAcls",
    "AddVoter",
    "RemoveVoter",
    "UnregisterController",
    "MakeQuorumDynamic",
    "UpdateFeatures",
}
CANARY = "canary-8d1f"
ADMIN = Caller(Endpoint("10.0.0.7", 4711), "BROKER", "User:admin")
KAFKA = Caller(Endpoint("10.0.0.7", 4711), "KAFKA", "User:admin", ListenerType.KAFKA)
ORDERS = NewTopic("orders", 3)


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock.audit")


class Bench:
    def __init__(self) -> None:
        self.log = AuditLog(lambda: 0)
        self.audited = AuditedRequests(self.log, AUDITED_OFTEN)

    def ask(self, api: str, body: Any, caller: Caller = ADMIN, **more: Any) -> Request:
        request = Request(api, body, Sink(), caller, NOW_NS, **more)
        self.audited.watch(request)
        return request


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "penstock.audit"]


def created(*errors: ApiError | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(tuple(TopicResult(f"t{n}", "T", error) for n, error in enumerate(errors)), 7)


def test_every_api_that_changes_what_there_is_is_an_act_and_no_other() -> None:
    audited = {api.name for api in APIS.values() if api.administers is not None}
    assert audited == ACTS_OF_CLIENTS
    changing = {api.name for api in APIS.values() if api.kind.at_broker and api.operation in ADMINISTRATIVE}
    assert changing == audited - {"OffsetCommit", "LeaveGroup"}, "these are asked for by members, too"


def test_a_line_says_who_did_what_from_where_and_what_came_of_it(caplog: pytest.LogCaptureFixture) -> None:
    request = Bench().ask("CreateTopics", CreateTopicsRequest((ORDERS,), timeout_ms=5), client_id="ops\n\x1b[2J")
    request.complete(CreateTopicsResponse((TopicResult("orders", "T" * 22, None, 3, 1),), 7))
    (record,) = (record for record in caplog.records if record.name == "penstock.audit")
    assert record.getMessage().isprintable() and record.levelname == "INFO"
    assert lines(caplog) == [
        {
            "outcome": "done",
            "principal": "User:admin",
            "host": "10.0.0.7",
            "port": 4711,
            "listener": "BROKER",
            "client_id": "ops\n\x1b[2J",
            "api": "CreateTopics",
            "request": {"topics": [{"name": "orders", "partitions": 3}]},
            "answer": {
                "topics": [{"name": "orders", "topic_id": "T" * 22, "partitions": 3, "replication_factor": 1}],
                "metadata_offset": 7,
            },
        }
    ]


def test_a_request_of_kafkas_clients_has_its_number(caplog: pytest.LogCaptureFixture) -> None:
    request = Bench().ask(
        "DeleteGroups", DeleteGroupsRequest(("g",)), KAFKA, correlation_id=12, client_id="adminclient"
    )
    request.fail(GroupIdNotFoundError("no such group"))
    (line,) = lines(caplog)
    assert line["correlation_id"] == 12 and line["client_id"] == "adminclient" and line["outcome"] == "failed"
    assert line["errors"] == {"GROUP_ID_NOT_FOUND": 1} and "answer" not in line


REFUSED = TopicAuthorizationFailedError("no")
OUTCOMES = [
    ((None, None), "done", None),
    ((None, TopicExistsError("t1")), "partly done", {"TOPIC_ALREADY_EXISTS": 1}),
    ((None, REFUSED), "partly done", {"TOPIC_AUTHORIZATION_FAILED": 1}),
    (
        (TopicExistsError("t0"), InvalidPartitionsError("t1")),
        "failed",
        {"TOPIC_ALREADY_EXISTS": 1, "INVALID_PARTITIONS": 1},
    ),
    ((REFUSED, TopicExistsError("t1")), "failed", {"TOPIC_AUTHORIZATION_FAILED": 1, "TOPIC_ALREADY_EXISTS": 1}),
    ((RequestTimedOutError("late"),), "unknown", {"REQUEST_TIMED_OUT": 1}),
]


@pytest.mark.parametrize(("errors", "outcome", "expected"), OUTCOMES, ids=[f"{row[1]} {row[2]}" for row in OUTCOMES])
def test_the_outcome_is_that_of_all_parts(
    errors: tuple[ApiError | None, ...], outcome: str, expected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Bench().ask("CreateTopics", CreateTopicsRequest((ORDERS,))).complete(created(*errors))
    (line,) = lines(caplog)
    assert line["outcome"] == outcome and line.get("errors") == expected
    shown_errors = [topic.get("error") for topic in line["answer"]["topics"]]
    assert shown_errors == [error and error.kafka_name for error in errors]


def test_what_is_refused_whole_is_the_refusals_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.ask("CreateTopics", CreateTopicsRequest((ORDERS,))).fail(REFUSED)
    bench.ask("CreateTopics", CreateTopicsRequest((ORDERS,))).complete(created(REFUSED, REFUSED))
    assert not lines(caplog)


def test_the_parts_of_every_act_that_failed_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the row of the API counts none for the metrics."""
    error = UnknownTopicOrPartitionError("gone")
    moved = AlterReplicaLogDirsResponse(1, (AlterReplicaLogDirResult(TopicPartition("t", 0), error),))
    Bench().ask("AlterReplicaLogDirs", AlterReplicaLogDirsRequest(())).complete(moved)
    for name in sorted(ACTS_OF_CLIENTS - {"EndHangingTransaction"}):  # it succeeds or fails as a whole
        answer = APIS[name].response
        parts = [field for field in answer.__slots__ if field in ("topics", "partitions", "resources", "results")]
        parts += [field for field in answer.__slots__ if field in ("groups", "members", "users", "error")]
        assert parts, name
    assert lines(caplog)[0]["errors"] == {"UNKNOWN_TOPIC_OR_PARTITION": 1}


def test_a_client_that_has_left_has_done_it_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    request = Bench().ask("DeleteTopics", DeleteTopicsRequest(("T" * 22,)))
    request.abandoned()
    request.complete(DeleteTopicsResponse((TopicResult("orders", "T" * 22),)))
    (line,) = lines(caplog)
    assert line["outcome"] == "done" and line["answer"]["topics"][0]["name"] == "orders", "the request has only the id"


def test_what_was_only_to_be_judged_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    Bench().ask("CreateTopics", CreateTopicsRequest((ORDERS,), validate_only=True)).complete(created(None))
    assert lines(caplog)[0]["outcome"] == "checked"


def test_what_was_only_to_be_judged_is_bounded_and_hides_no_act(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever may create one topic could fill the file with a request that changes nothing."""
    bench, asked = Bench(), CreateTopicsRequest((ORDERS,), validate_only=True)
    for number in range(3 * LINES_MAX):
        for _ in range(2):
            bench.ask("CreateTopics", asked, ADMIN._replace(principal=f"User:{number}")).complete(created(None))
    assert len(lines(caplog)) == LINES_MAX and bench.log.statistics().checked_requests == 5 * LINES_MAX
    caplog.clear()
    for _ in range(3):
        bench.ask("CreateTopics", asked).fail(RequestTimedOutError("late"))
    assert [line["outcome"] for line in lines(caplog)] == ["failed"], "it cannot have been done"
    bench.ask("CreateTopics", CreateTopicsRequest((ORDERS,))).complete(created(None))
    assert lines(caplog)[-1]["outcome"] == "done"


def test_failures_are_bounded_and_what_is_done_is_not(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for number in range(3 * LINES_MAX):
        caller = ADMIN._replace(principal=f"User:{number}")
        bench.ask("DeleteGroups", DeleteGroupsRequest(("g",)), caller).fail(GroupIdNotFoundError("g"))
    assert len(lines(caplog)) == LINES_MAX and bench.log.statistics().failures == 2 * LINES_MAX
    caplog.clear()
    for _ in range(3 * LINES_MAX):
        bench.ask("CreateTopics", CreateTopicsRequest((ORDERS,))).complete(created(None))
    assert len(lines(caplog)) == 3 * LINES_MAX


def test_requests_that_name_nothing_need_no_right_and_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Without a bound, whoever may do nothing could fill the file until the lines about others are gone."""
    bench = Bench()
    for _ in range(3):
        bench.ask("CreateTopics", CreateTopicsRequest(())).complete(created())
    assert len(lines(caplog)) == 1 and bench.log.statistics().frequent_requests == 2
    for _ in range(3):
        bench.ask("ElectLeaders", ElectLeadersRequest(0, None)).complete(ElectLeadersResponse(()))
    assert len(lines(caplog)) == 4, "it names every partition"


def test_commits_of_members_are_no_acts_and_those_of_others_are_bounded_by_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench, commit = Bench(), (OffsetCommitPartition(TopicPartition("t", 0), 5),)
    bench.ask("OffsetCommit", OffsetCommitRequest("g", commit, "member-1", 3)).complete(OffsetCommitResponse(()))
    assert not lines(caplog)
    for group in ("g", "g", "h"):
        bench.ask("OffsetCommit", OffsetCommitRequest(group, commit)).complete(OffsetCommitResponse(()))
    first, second = lines(caplog)
    assert first["request"]["partitions"] == [{"partition": {"topic": "t", "partition": 0}, "offset": 5}]
    assert second["request"]["group_id"] == "h" and second["left_out"] == 1


def test_a_static_member_that_another_removes_is_an_act(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.ask("LeaveGroup", LeaveGroupRequest("g", (LeavingMember("m"),))).complete(LeaveGroupResponse())
    assert not lines(caplog)
    bench.ask("LeaveGroup", LeaveGroupRequest("g", (LeavingMember("", "host-1"),))).complete(LeaveGroupResponse())
    assert len(lines(caplog)) == 1


def test_the_line_of_the_page_is_true(caplog: pytest.LogCaptureFixture) -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "security.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    shown = json.loads(block)
    caller = ADMIN._replace(peer=Endpoint("10.0.0.7", 50412))
    topic_id = shown["answer"]["topics"][0]["topic_id"]
    answer = CreateTopicsResponse((TopicResult("orders", topic_id, None, 3, 3),), 57)
    Bench().ask("CreateTopics", CreateTopicsRequest((ORDERS,)), caller).complete(answer)
    (line,) = lines(caplog)
    assert list(shown) == ["time", "node", *line], "in the order of the file's lines"
    assert {**shown, **line} == shown


def test_members_that_another_one_removes_have_a_line_each_however_many_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    for number in range(LINES_MAX + 5):
        request = bench.ask("LeaveGroup", LeaveGroupRequest("g", (LeavingMember(f"m-{number}"),)))
        bench.audited.found(request)
        request.complete(LeaveGroupResponse((LeftMember(f"m-{number}"),)))
    found = lines(caplog)
    assert len(found) == LINES_MAX + 5 and {line["outcome"] for line in found} == {"done"}
    assert found[7]["request"]["members"] == [{"member_id": "m-7"}] and found[7]["principal"] == "User:admin"
