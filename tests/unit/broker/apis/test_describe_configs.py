"""Promises of DescribeConfigs: every key, its effective value, and where that truly comes from."""

from __future__ import annotations

import pytest

from broker.apis.describe_configs import RESOURCES_MAX, DescribeConfigsApi
from broker.config.config import parse_config
from broker.config.config_table import KEYS
from broker.network.request_channel import Request
from broker.quorum.metadata_publisher import topic_defaults
from broker.requests import (
    ConfigEntryView,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from metadata.topic_config import TOPIC_CONFIGS, parse_topic_config
from penstock.errors import ApiError, InvalidConfigError, InvalidRequestError, UnknownTopicOrPartitionError
from tests.support.machine import NOW_NS
from tests.support.sinks import Sink
from tests.unit.metadata.harness import Cluster

NODE = {
    "node.id": 1,
    "process.roles": ["broker", "controller"],
    "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193",
    "controller.quorum.voters": "1@127.0.0.1:9193",
    "log.dirs": "/nowhere/a",
    "log.segment.bytes": 1 << 20,
    "log.retention.ms": 604_800_000,  # which is the default, and still from the file
    "unclean.leader.election.enable": True,
}


def described(*resources: DescribeConfigsResource) -> tuple[DescribeConfigsResult, ...]:
    cluster = Cluster(brokers=1)
    cluster.create("t", config={"retention.bytes": "5", "cleanup.policy": "compact, delete"})
    config = parse_config(NODE)
    body = DescribeConfigsRequest(resources)
    request = Request("DescribeConfigs", body, Sink(), "test", NOW_NS)
    DescribeConfigsApi(config, topic_defaults(config), lambda: cluster.image).handle(request, body)
    assert isinstance(request.response, DescribeConfigsResponse)
    assert request.response.metadata_offset == cluster.image.offset
    return request.response.resources


def entries(resource_type: str, name: str, *keys: str) -> dict[str, ConfigEntryView]:
    (result,) = described(DescribeConfigsResource(resource_type, name, keys))
    assert result.error is None
    return {entry.key: entry for entry in result.configs}


def test_every_key_of_a_topic_is_there_and_reads_back_as_it_is_written() -> None:
    found = entries("topic", "t")
    assert list(found) == list(TOPIC_CONFIGS)
    for key, entry in found.items():
        assert parse_topic_config(key, entry.value) is not None
        assert (entry.type, entry.documentation) == (TOPIC_CONFIGS[key].kind.value, TOPIC_CONFIGS[key].doc)


def test_a_topics_value_is_its_own_or_the_files_or_the_default() -> None:
    found = entries("topic", "t")
    assert {key: (found[key].value, found[key].source) for key in (
        "retention.bytes", "cleanup.policy", "segment.bytes", "retention.ms", "max.message.bytes",
        "unclean.leader.election.enable",
    )} == {
        "retention.bytes": ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "cleanup.policy": ("compact,delete", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "segment.bytes": ("1048576", ConfigSource.STATIC_BROKER_CONFIG),
        "retention.ms": ("604800000", ConfigSource.STATIC_BROKER_CONFIG),
        "max.message.bytes": ("1048588", ConfigSource.DEFAULT_CONFIG),
        "unclean.leader.election.enable": ("true", ConfigSource.STATIC_BROKER_CONFIG),
    }  # fmt: skip


def test_a_broker_tells_what_its_file_says_and_what_is_default() -> None:
    found = entries("broker", "1")
    assert list(found) == list(KEYS)
    assert (found["process.roles"].value, found["process.roles"].type) == ("broker,controller", "list")
    assert (found["log.segment.bytes"].value, found["log.segment.bytes"].source) == (
        "1048576",
        ConfigSource.STATIC_BROKER_CONFIG,
    )
    assert (found["num.io.threads"].value, found["num.io.threads"].source) == ("8", ConfigSource.DEFAULT_CONFIG)
    assert (found["auto.create.topics.enable"].value, found["log.flush.interval.ms"].type) == ("false", "long")


def test_only_the_keys_that_are_asked_for_are_told() -> None:
    assert list(entries("topic", "t", "retention.ms", "segment.ms")) == ["retention.ms", "segment.ms"]
    assert list(entries("broker", "1", "node.id")) == ["node.id"]


BAD_RESOURCES: dict[str, tuple[DescribeConfigsResource, type[ApiError], str]] = {
    "unknown topic": (DescribeConfigsResource("topic", "nope"), UnknownTopicOrPartitionError, "'nope'"),
    "no name": (DescribeConfigsResource("topic", ""), UnknownTopicOrPartitionError, "''"),
    "unknown key": (DescribeConfigsResource("topic", "t", ("retention.mss",)), InvalidConfigError, "retention.ms"),
    "a broker's key": (
        DescribeConfigsResource("topic", "t", ("log.retention.ms",)),
        InvalidConfigError,
        "retention.ms",
    ),
    "unknown broker key": (DescribeConfigsResource("broker", "1", ("nope",)), InvalidConfigError, "'nope'"),
    "another broker": (DescribeConfigsResource("broker", "2"), InvalidRequestError, "this is broker 1"),
    "no broker": (DescribeConfigsResource("broker", ""), InvalidRequestError, "this is broker 1"),
    "another type": (DescribeConfigsResource("group", "g"), InvalidRequestError, "'group'"),
    "no type": (DescribeConfigsResource("", ""), InvalidRequestError, "''"),
}


@pytest.mark.parametrize("row", BAD_RESOURCES)
def test_a_bad_resource_has_its_own_error_and_the_others_are_answered(row: str) -> None:
    resource, error, says = BAD_RESOURCES[row]
    first, second = described(resource, DescribeConfigsResource("topic", "t"))
    assert isinstance(first.error, error) and says in first.error.message and not first.configs
    assert second.error is None and second.configs


@pytest.mark.parametrize("count", [0, RESOURCES_MAX + 1])
def test_a_request_names_at_least_one_resource_and_not_too_many(count: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"names {count} resources"):
        described(*[DescribeConfigsResource("topic", "t")] * count)
