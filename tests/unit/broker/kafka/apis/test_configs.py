"""Promises of the requests about configuration in Kafka's protocol, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.apis.admin.describe_configs import ASKED_AT_ONCE, describe_configs
from broker.kafka.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from penstock.errors import NotControllerError
from penstock.messages.configs import ConfigChange, DescribeConfigsResponse, DescribeConfigsResult
from tests.support.kafka_plans import asked, first_ask, pauses
from tests.unit.broker.kafka.apis.admin_node import AdminNode

DESCRIBE, ALTER, INCREMENTAL, LIST = 32, 33, 44, 74
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Key = tuple[int, str]


def describing(*resources: tuple[int, str, list[str] | None], **fields: Any) -> DescribeConfigsRequest:
    asked = [DescribeConfigsResource(resource_type=t, resource_name=n, configuration_keys=k) for t, n, k in resources]
    return DescribeConfigsRequest(resources=asked, **fields)


def incremental(*resources: tuple[int, str, list[tuple[str, int, str | None]]], **fields: Any) -> Any:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        **fields,
    )


def whole(*resources: tuple[int, str, dict[str, str | None]], **fields: Any) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            AlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterConfigsRequestAlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
            for kind, name, configs in resources
        ],
        **fields,
    )


def outcomes(answer: Any) -> list[tuple[int, str, int]]:
    assert all(bool(row.error_message) == bool(row.error_code) for row in answer.responses)
    return [(row.resource_type, row.resource_name, row.error_code) for row in answer.responses]


def a_topic(**config: str) -> AdminNode:
    node = AdminNode()
    node.cluster.create("t", config={key.replace("_", "."): value for key, value in config.items()})
    return node


# -- DescribeConfigs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
def test_topics_and_brokers_are_described_as_the_version_can(version: int) -> None:
    node = a_topic(retention_ms="5")
    node.cluster.configure("", {"message.max.bytes": "9000"}, "broker")
    fields = {"include_synonyms": True} | ({"include_documentation": True} if version >= 3 else {})
    body = describing((TOPIC, "t", None), (BROKER, "1", []), (BROKER, "", None), **fields)
    topic, broker, for_all = node.call(DESCRIBE, body, version).results
    found = {entry.name: entry for entry in topic.configs}
    own, inherited = found["retention.ms"], found["max.message.bytes"]
    assert (own.value, own.config_source, inherited.value, inherited.config_source) == ("5", 1, "9000", 3)
    assert [(s.name, s.value, s.source) for s in own.synonyms] == [
        ("retention.ms", "5", 1), ("log.retention.ms", "604800000", 5)
    ]  # fmt: skip
    assert (own.config_type, bool(own.documentation)) == ((5, True) if version >= 3 else (0, False))
    assert not own.read_only and not own.is_sensitive
    entries = {entry.name: entry for entry in broker.configs}
    assert (entries["node.id"].config_source, entries["node.id"].read_only) == (4, True)
    assert (entries["message.max.bytes"].config_source, entries["message.max.bytes"].read_only) == (3, False)
    assert [(entry.name, entry.value) for entry in for_all.configs] == [("message.max.bytes", "9000")]


def test_synonyms_and_documentation_are_told_to_those_who_ask() -> None:
    (result,) = a_topic().call(DESCRIBE, describing((TOPIC, "t", None)), 4).results
    assert not any(entry.synonyms or entry.documentation for entry in result.configs)


def test_the_keys_that_are_asked_for_are_told_and_unknown_ones_left_out() -> None:
    body = describing((TOPIC, "t", ["segment.ms", "no.such.key"]), (BROKER, "1", ["node.id", "ssl.key.password"]))
    topic, broker = a_topic().call(DESCRIBE, body, 4).results
    assert [entry.name for entry in topic.configs] == ["segment.ms"]
    assert [entry.name for entry in broker.configs] == ["node.id"] and broker.error_code == 0


def test_each_resource_has_its_own_answer_in_order() -> None:
    node = a_topic()
    body = describing(
        (GROUP, "g", None), (TOPIC, "gone", None), (BROKER, "2", None), (BROKER, "x", None), (TOPIC, "t", None),
        (METRICS, "m", None), (LOGGER, "", None), (99, "t", None), (TOPIC, "t", ["segment.ms"]),
    )  # fmt: skip
    results = node.call(DESCRIBE, body, 4).results
    assert [(r.resource_type, r.resource_name, r.error_code) for r in results] == [
        (GROUP, "g", 42), (TOPIC, "gone", 3), (BROKER, "2", 42), (BROKER, "x", 42), (TOPIC, "t", 0), (METRICS, "m", 0),
        (LOGGER, "", 42), (99, "t", 42), (TOPIC, "t", 0),
    ]  # fmt: skip
    assert len(results[4].configs) > 20 and len(results[-1].configs) == 1
    assert len(node.asks) == 1 and len(node.asks[0].body.resources) == 5


def test_a_resource_that_is_named_often_is_described_once_for_each_list_of_keys() -> None:
    node = a_topic()
    body = describing(*[(TOPIC, "t", None), (TOPIC, "t", ["segment.ms"])] * 1_000)
    results = node.call(DESCRIBE, body, 4).results
    assert [len(result.configs) > 1 for result in results] == [True, False] and len(node.asks) == 1


def test_many_resources_are_asked_for_a_few_at_a_time_and_told_with_a_pause_after_each() -> None:
    plan = describe_configs(asked(4), describing(*((TOPIC, f"t{n}", None) for n in range(2 * ASKED_AT_ONCE))))
    wanted = first_ask(plan, "DescribeConfigs").resources
    assert [one.resource_name for one in wanted] == [f"t{n}" for n in range(ASKED_AT_ONCE)]
    answer = tuple(DescribeConfigsResult(one.resource_type, one.resource_name) for one in wanted)
    assert pauses(plan, DescribeConfigsResponse(answer, 1)) == ASKED_AT_ONCE + 1


def test_a_description_of_nothing_asks_for_nothing() -> None:
    node = AdminNode()
    assert node.call(DESCRIBE, describing(), 4).results == [] and not node.asks


def test_every_type_of_a_key_has_kafkas_number() -> None:
    results = a_topic().call(DESCRIBE, describing((TOPIC, "t", None), (BROKER, "1", None)), 3).results
    assert all(entry.config_type for result in results for entry in result.configs)


# -- IncrementalAlterConfigs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2))
def test_keys_are_set_deleted_appended_and_subtracted(version: int) -> None:
    node = a_topic(retention_ms="5", segment_ms="6")
    changes = [("retention.ms", SET, "7"), ("segment.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")]
    assert outcomes(node.call(INCREMENTAL, incremental((TOPIC, "t", changes)), version)) == [(TOPIC, "t", 0)]
    assert node.cluster.image.topic_config("t") == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    subtracted = incremental((TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete")]))
    assert outcomes(node.call(INCREMENTAL, subtracted, version)) == [(TOPIC, "t", 0)]
    assert node.cluster.image.topic_config("t")["cleanup.policy"] == "compact"


def test_one_bad_key_spoils_its_resource_and_no_other() -> None:
    node = a_topic()
    node.cluster.create("u")
    body = incremental(
        (TOPIC, "t", [("segment.ms", SET, "5"), ("no.such.key", SET, "1")]),
        (TOPIC, "u", [("segment.ms", SET, "5")]),
        (TOPIC, "gone", [("segment.ms", SET, "5")]),
        (BROKER, "9", [("message.max.bytes", SET, "5")]),
        (BROKER, "x", [("message.max.bytes", SET, "5")]),
        (GROUP, "g", [("a", SET, "5")]),
    )
    assert outcomes(node.call(INCREMENTAL, body, 1)) == [
        (TOPIC, "t", 40), (TOPIC, "u", 0), (TOPIC, "gone", 3), (BROKER, "9", 102), (BROKER, "x", 42), (GROUP, "g", 42),
    ]  # fmt: skip
    assert not node.cluster.image.topic_config("t") and node.cluster.image.topic_config("u") == {"segment.ms": "5"}


@pytest.mark.parametrize(("changes", "code"), [
    ([("segment.ms", SET, None)], 42),
    ([("cleanup.policy", APPEND, None)], 42),
    ([("segment.ms", SET, "1"), ("segment.ms", SET, "2")], 42),
    ([("segment.ms", 4, "1")], 42),
    ([("segment.ms", SET, "one")], 40),
    ([("segment.ms", APPEND, "1")], 40),
])  # fmt: skip
def test_a_change_that_says_nothing_is_refused(changes: list[tuple[str, int, str | None]], code: int) -> None:
    node = a_topic()
    assert outcomes(node.call(INCREMENTAL, incremental((TOPIC, "t", changes)), 1)) == [(TOPIC, "t", code)]
    assert not node.cluster.image.topic_config("t")


def test_a_resource_that_is_named_twice_is_refused_once() -> None:
    twice = (TOPIC, "t", [("segment.ms", SET, "5")])
    node = a_topic()
    assert outcomes(node.call(INCREMENTAL, incremental(twice, twice), 1)) == [(TOPIC, "t", 42)]
    assert not node.asks


def test_brokers_and_all_of_them_are_configured_also_in_one_request() -> None:
    node = a_topic()
    body = incremental(
        (BROKER, "1", [("message.max.bytes", SET, "8000")]),
        (BROKER, "", [("message.max.bytes", SET, "9000")]),
        (TOPIC, "t", [("segment.ms", SET, "5")]),
    )
    assert [code for *_, code in outcomes(node.call(INCREMENTAL, body, 1))] == [0, 0, 0]
    configs = {tuple(resource): dict(texts) for resource, texts in node.cluster.image.configs.items()}
    assert configs == {
        ("broker", ""): {"message.max.bytes": "9000"},
        ("broker", "1"): {"message.max.bytes": "8000"},
        ("topic", "t"): {"segment.ms": "5"},
    }


def test_validation_alone_changes_nothing() -> None:
    node = a_topic()
    for value, code in (("5", 0), ("five", 40)):
        body = incremental((TOPIC, "t", [("segment.ms", SET, value)]), validate_only=True)
        assert outcomes(node.call(INCREMENTAL, body, 1)) == [(TOPIC, "t", code)]
    body = whole((TOPIC, "t", {"segment.ms": "5"}), validate_only=True)
    assert outcomes(node.call(ALTER, body, 1)) == [(TOPIC, "t", 0)]
    assert not node.cluster.image.topic_config("t")


@pytest.mark.parametrize("key", [ALTER, INCREMENTAL])
def test_what_the_controller_refuses_as_a_whole_each_resource_is_told(key: int) -> None:
    node = a_topic()

    def refuses(body: object) -> None:
        raise NotControllerError("none")

    node.answers["AlterConfigs"] = refuses
    body = (
        whole((TOPIC, "t", {}), (GROUP, "g", {})) if key == ALTER else incremental((TOPIC, "t", []), (GROUP, "g", []))
    )
    assert outcomes(node.call(key, body, 1)) == [(TOPIC, "t", 41), (GROUP, "g", 42)]


def test_a_key_that_nobody_knows_can_be_deleted_but_not_set() -> None:
    node = a_topic(retention_ms="5")
    for operation, code in ((DELETE, 0), (SET, 40)):
        changes: Any = [("no.key", operation, "1")]
        body = incremental((TOPIC, "t", changes), (BROKER, "1", changes), (TOPIC, "gone", changes))
        assert [found for *_, found in outcomes(node.call(INCREMENTAL, body, 1))] == [code, code, 3]


def test_the_throttles_of_kafkas_tool_for_reassignments_need_no_list_of_replicas() -> None:
    node = a_topic(retention_ms="5")
    lists: Any = [(f"{role}.replication.throttled.replicas", SET, "0:1,0:2") for role in ("leader", "follower")]
    rate: Any = [("leader.replication.throttled.rate", SET, "1000000")]
    body = incremental((TOPIC, "t", lists), (BROKER, "1", rate))
    assert outcomes(node.call(INCREMENTAL, body, 1)) == [(TOPIC, "t", 0), (BROKER, "1", 0)]
    assert node.cluster.image.topic_config("t") == {"retention.ms": "5"}
    old = whole((TOPIC, "t", {"retention.ms": "6"} | {key: value for key, _, value in lists}))
    assert outcomes(node.call(ALTER, old, 2)) == [(TOPIC, "t", 0)]
    assert node.cluster.image.topic_config("t") == {"retention.ms": "6"}
    assert outcomes(node.call(INCREMENTAL, incremental((BROKER, "1", lists)), 1)) == [(BROKER, "1", 40)]


def test_an_idle_key_is_set_described_with_its_synonyms_and_deleted() -> None:
    node = a_topic(retention_ms="5")
    asked = describing((TOPIC, "t", ["preallocate"]), include_synonyms=True)

    def described() -> list[tuple[str | None, int, list[tuple[str, str | None, int]]]]:
        (found,) = node.call(DESCRIBE, asked, 4).results[0].configs
        return [(found.value, found.config_source, [(s.name, s.value, s.source) for s in found.synonyms])]

    assert described() == [("false", 5, [("preallocate", "false", 5)])]
    for changes, code in ((("preallocate", SET, "true"), 40), (("preallocate", SET, "false"), 0)):
        assert outcomes(node.call(INCREMENTAL, incremental((TOPIC, "t", [changes])), 1)) == [(TOPIC, "t", code)]
    assert described() == [("false", 1, [("preallocate", "false", 1), ("preallocate", "false", 5)])]
    gone: Any = [("preallocate", DELETE, None)]
    for _ in range(2):
        assert outcomes(node.call(INCREMENTAL, incremental((TOPIC, "t", gone)), 1)) == [(TOPIC, "t", 0)]
    assert described() == [("false", 5, [("preallocate", "false", 5)])]


# -- AlterConfigs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_the_old_request_takes_back_what_it_does_not_name(version: int) -> None:
    node = a_topic(retention_ms="5", segment_ms="6")
    answer = node.call(ALTER, whole((TOPIC, "t", {"segment.ms": "7"}), (TOPIC, "u", {})), version)
    assert outcomes(answer) == [(TOPIC, "t", 0), (TOPIC, "u", 3)]
    assert node.cluster.image.topic_config("t") == {"segment.ms": "7"}


def test_the_old_request_also_takes_back_what_came_between() -> None:
    """The metadata of this node may be older than the controller's."""
    node = a_topic(retention_ms="5")
    decide = node.cluster.controller.alter_configs

    def later(body: Any) -> Any:
        node.cluster.configure("t", {"segment.bytes": "4096"})
        return node.cluster.commit(decide(body, 0))

    node.answers["AlterConfigs"] = later
    assert outcomes(node.call(ALTER, whole((TOPIC, "t", {"segment.ms": "7"})), 1)) == [(TOPIC, "t", 0)]
    assert node.cluster.image.topic_config("t") == {"segment.ms": "7"}
    (resource,) = node.asks[0].body.resources
    assert resource.changes == (ConfigChange("segment.ms", SET, "7"), ConfigChange("retention.ms", DELETE))


def test_a_bad_value_of_the_old_request_takes_nothing_back() -> None:
    node = a_topic(retention_ms="5")
    for configs, code in (({"segment.ms": "x"}, 40), ({"segment.ms": None}, 42)):
        assert outcomes(node.call(ALTER, whole((TOPIC, "t", configs)), 2)) == [(TOPIC, "t", code)]
    assert outcomes(node.call(ALTER, whole((LOGGER, "1", {"root": "INFO"})), 2)) == [(LOGGER, "1", 42)]
    assert node.cluster.image.topic_config("t") == {"retention.ms": "5"}
