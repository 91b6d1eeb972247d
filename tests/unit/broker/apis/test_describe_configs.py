"""Promises of DescribeConfigs: every key, its effective value, and where that truly comes from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from broker.apis.describe_configs import RESOURCES_MAX, DescribeConfigsApi
from broker.config.config import parse_config
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.dynamic_keys import BROKER_CONFIGS
from broker.config.keys.config_table import KEYS
from broker.network.request_channel import Request
from metadata.controller.config import ControllerConfig
from metadata.controller.result import ControllerResult
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ConfigRecord
from metadata.topic_config import EVERY_TOPIC_KEY, parse_topic_config
from penstock.config_keys import Update
from penstock.errors import ApiError, InvalidConfigError, InvalidRequestError, UnknownTopicOrPartitionError
from penstock.messages.configs import (
    ConfigEntry,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

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


FOR_ALL = {"log.retention.ms": "7", "message.max.bytes": "8", "log.cleaner.backoff.ms": "10"}
OWN = {"message.max.bytes": "9", "logger.level": "info,raft=debug"}
NOTHING: Mapping[str, str] = MappingProxyType({})


def described(
    *resources: DescribeConfigsResource,
    for_all: Mapping[str, str] = NOTHING,
    own: Mapping[str, str] = NOTHING,
    synonyms: bool = False,
) -> tuple[DescribeConfigsResult, ...]:
    """By broker 1; the metadata has these for all brokers and for it."""
    cluster = Cluster(1, ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS, broker_configs=BROKER_CONFIGS))
    cluster.create("t", config={"retention.bytes": "5", "cleanup.policy": "compact, delete"})
    for name, texts in (("", for_all), ("1", own)):
        for key, text in texts.items():
            cluster.commit(ControllerResult((ConfigRecord("broker", name, key, text),), None))
    dynamic = DynamicBrokerConfig(parse_config(NODE))
    dynamic.published(MetadataDelta.between(EMPTY_IMAGE, cluster.image), cluster.image)
    body = DescribeConfigsRequest(resources, synonyms)
    request = Request("DescribeConfigs", body, Sink(), CALLER, NOW_NS)
    DescribeConfigsApi(dynamic, lambda: cluster.image).handle(request, body)
    assert isinstance(request.response, DescribeConfigsResponse)
    assert request.response.metadata_offset == cluster.image.offset
    return request.response.resources


def entries(
    resource_type: str, name: str, *keys: str, for_all: Mapping[str, str] = NOTHING, own: Mapping[str, str] = NOTHING
) -> dict[str, ConfigEntry]:
    (result,) = described(DescribeConfigsResource(resource_type, name, keys), for_all=for_all, own=own)
    assert result.error is None
    return {entry.name: entry for entry in result.configs}


def test_every_key_of_a_topic_is_there_and_reads_back_as_it_is_written() -> None:
    found = entries("topic", "t")
    assert list(found) == list(EVERY_TOPIC_KEY)
    for key, entry in found.items():
        assert parse_topic_config(key, entry.value) is not None
        assert (entry.type, entry.documentation) == (EVERY_TOPIC_KEY[key].type_name, EVERY_TOPIC_KEY[key].doc)


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


def test_a_broker_tells_what_the_metadata_has_for_it_and_for_all_brokers() -> None:
    keys = ("log.retention.ms", "message.max.bytes", "log.cleaner.backoff.ms", "logger.level", "log.segment.bytes")
    found = entries("broker", "1", *keys, for_all=FOR_ALL, own=OWN)
    assert [(entry.value, entry.source, entry.type) for entry in found.values()] == [
        ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "long"),
        ("9", ConfigSource.DYNAMIC_BROKER_CONFIG, "int"),
        ("10", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "int"),
        ("info,raft=debug", ConfigSource.DYNAMIC_BROKER_CONFIG, "list"),
        ("1048576", ConfigSource.STATIC_BROKER_CONFIG, "int"),
    ]
    found = entries("topic", "t", "retention.ms", "max.message.bytes", "retention.bytes", for_all=FOR_ALL, own=OWN)
    assert [(entry.value, entry.source) for entry in found.values()] == [
        ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("9", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    ]


def test_a_broker_tells_which_keys_cannot_change_while_it_runs() -> None:
    found = entries("broker", "1")
    assert {key for key, entry in found.items() if entry.is_read_only} == {
        name for name, key in KEYS.items() if key.update is Update.RESTART
    }
    assert not any(entry.is_read_only for entry in entries("topic", "t").values())


def test_for_all_brokers_only_what_the_metadata_has_is_told_also_what_a_newer_release_wrote() -> None:
    assert entries("broker", "") == {}
    found = entries("broker", "", for_all={**FOR_ALL, "quantum.flux": "on"}, own=OWN)
    assert {entry.source for entry in found.values()} == {ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}
    assert {key: (entry.value, entry.type) for key, entry in found.items()} == {
        "log.cleaner.backoff.ms": ("10", "int"),
        "log.retention.ms": ("7", "long"),
        "message.max.bytes": ("8", "int"),
        "quantum.flux": ("on", "string"),
    }
    assert list(entries("broker", "", "log.retention.ms", "log.roll.ms", for_all=FOR_ALL)) == ["log.retention.ms"]


@pytest.mark.parametrize("synonyms", [False, True])
def test_every_value_of_a_key_is_told_to_those_who_ask_the_one_in_force_first(synonyms: bool) -> None:
    file = {"log.segment.bytes": "1048576", "log.retention.ms": "604800000"}
    topic = DescribeConfigsResource("topic", "t", ("retention.bytes", "retention.ms", "max.message.bytes"))
    broker = DescribeConfigsResource("broker", "1", ("message.max.bytes", "log.segment.bytes", "node.id"))
    for_all = DescribeConfigsResource("broker", "", ("message.max.bytes",))
    results = described(topic, broker, for_all, for_all=FOR_ALL, own=OWN, synonyms=synonyms)
    found = [[tuple(map(str, (s.name, s.value, s.source))) for s in e.synonyms] for r in results for e in r.configs]
    of_max_bytes = [
        ("message.max.bytes", "9", "DYNAMIC_BROKER_CONFIG"),
        ("message.max.bytes", "8", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("message.max.bytes", "1048588", "DEFAULT_CONFIG"),
    ]
    assert (
        found == [[]] * 7
        if not synonyms
        else found
        == [
            [("retention.bytes", "5", "DYNAMIC_TOPIC_CONFIG"), ("log.retention.bytes", "-1", "DEFAULT_CONFIG")],
            [
                ("log.retention.ms", "7", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
                ("log.retention.ms", file["log.retention.ms"], "STATIC_BROKER_CONFIG"),
                ("log.retention.ms", "604800000", "DEFAULT_CONFIG"),
            ],
            of_max_bytes,
            of_max_bytes,
            [
                ("log.segment.bytes", file["log.segment.bytes"], "STATIC_BROKER_CONFIG"),
                ("log.segment.bytes", str(1 << 30), "DEFAULT_CONFIG"),
            ],
            [("node.id", "1", "STATIC_BROKER_CONFIG")],
            [("message.max.bytes", "8", "DYNAMIC_DEFAULT_BROKER_CONFIG")],
        ]
    )
    for entry in (entry for result in results for entry in result.configs if synonyms):
        assert (entry.synonyms[0].value, entry.synonyms[0].source) == (entry.value, entry.source)


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
    "no broker": (DescribeConfigsResource("broker", "one"), InvalidRequestError, "this is broker 1"),
    "unknown key of all": (DescribeConfigsResource("broker", "", ("nope",)), InvalidConfigError, "'nope'"),
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
