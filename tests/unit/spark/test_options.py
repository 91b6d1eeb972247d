"""Promises about what a user may write in `.option(…)`."""

from __future__ import annotations

import pickle

import pytest

from penstock.client.options.config import AdminConfig, ConsumerConfig
from penstock.errors import ConfigError
from penstock.spark.boundary import BoundaryKind
from penstock.spark.kafka_options import options_of
from penstock.spark.options import SourceOptions, source_options
from penstock.spark.writing.sink_options import sink_options
from penstock.types import TopicPartition

BASE = {"bootstrap": "h:9192", "subscribe": "orders"}


def batch(**more: str) -> SourceOptions:
    return source_options({**BASE, **more}, streaming=False)


@pytest.mark.parametrize("name", ["bootstrap", "bootstrap.servers", "kafka.bootstrap.servers"])
def test_every_spelling_of_the_bootstrap_is_understood(name: str) -> None:
    options = source_options({name: "a:1,b:2", "subscribe": "orders"}, streaming=False)
    assert options.bootstrap == "a:1,b:2"


def test_names_are_compared_without_case_as_spark_hands_them_over() -> None:
    assert batch(INCLUDEHEADERS="True").include_headers


def test_a_batch_reads_from_earliest_and_a_stream_from_latest_by_default() -> None:
    assert batch().starting.kind is BoundaryKind.EARLIEST
    assert source_options(BASE, streaming=True).starting.kind is BoundaryKind.LATEST


def test_kafkas_json_of_offsets_is_understood() -> None:
    starting = batch(startingOffsets='{"orders": {"0": 23, "1": -2}}').starting
    assert starting.values == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}


def test_a_time_goes_before_times_by_partition_and_these_before_offsets() -> None:
    times = '{"orders": {"0": 7}}'
    both = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": times}
    assert batch(**both).starting.kind is BoundaryKind.TIMESTAMPS
    assert batch(**both, startingTimestamp="9").starting.timestamp_ms == 9


def test_assign_names_partitions() -> None:
    options = source_options({"bootstrap": "h:1", "assign": '{"b": [1], "a": [2, 0]}'}, streaming=False)
    assert options.subscription.partitions == (
        TopicPartition("a", 0),
        TopicPartition("a", 2),
        TopicPartition("b", 1),
    )


def test_client_options_come_in_kafkas_spelling() -> None:
    assert batch(**{"kafka.request.timeout.ms": "700"}).client == {"request_timeout_ms": 700}
    assert sink_options({"bootstrap": "h:1", "kafka.compression.type": "zstd"}).client == {"compression_type": "zstd"}


def test_a_value_that_the_producer_refuses_is_refused_before_any_task() -> None:
    with pytest.raises(ConfigError, match=r"^option kafka\.compression\.type='brotli' must be one of none, gzip"):
        sink_options({"bootstrap": "h:1", "kafka.compression.type": "brotli"})


def test_what_spark_adds_itself_is_not_judged() -> None:
    assert sink_options({"bootstrap": "h:1", "checkpointLocation": "/c", "topic": "t"}).topic == "t"


def test_options_survive_pickling() -> None:
    options = batch(startingOffsets='{"orders": {"0": 1}}')
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        ({"colour": "red"}, "has no option 'colour'; it has bootstrap"),
        ({"path": "orders"}, "name topics with the option subscribe"),
        ({"assign": '{"t": [0]}'}, "subscribe and assign contradict"),
        ({"kafka.bootstrap.servers": "h:2"}, "bootstrap and kafka.bootstrap.servers contradict"),
        ({"startingOffsets": "latest"}, "would read nothing"),
        ({"startingOffsets": "soon"}, "startingOffsets='soon' must be 'earliest', 'latest' or JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "offset -3 of t-0"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "t-0 has True"),
        ({"startingTimestamp": "yesterday"}, "a time in ms"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be 'error' or 'latest'"),
        ({"endingOffsets": "earliest"}, "cannot be where a read ends"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss='perhaps' must be true or false"),
        ({"minPartitions": "0"}, "minPartitions='0' must be a whole number of at least 1"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for streams"),
        ({"maxBytesPerTrigger": "5"}, "maxBytesPerTrigger is for streams"),
        ({"kafka.request.timeout": "5"}, "did you mean 'kafka.request.timeout.ms'"),
        ({"kafka.request.timeout.ms": "soon"}, "must be a whole number"),
        ({"kafka.request.timeout.ms": "0"}, "^option kafka.request.timeout.ms=0 must be from 1"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name_and_the_remedy(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        batch(**more)


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("1000", 1000), ("8k", 8192), ("2 MB", 2 << 20), ("1g", 1 << 30), ("3t", 3 << 40)]
)
def test_a_number_of_bytes_may_have_a_unit(text: str, size_bytes: int) -> None:
    options = source_options({**BASE, "maxBytesPerTrigger": text}, streaming=True)
    assert options.max_bytes_per_trigger == size_bytes


@pytest.mark.parametrize("text", ["0", "-5", "much", "1.5g", "1x", ""])
def test_a_wrong_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"maxBytesPerTrigger=.* must be a number of bytes"):
        source_options({**BASE, "maxBytesPerTrigger": text}, streaming=True)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="endingOffsets is for batch reads"):
        source_options({**BASE, "endingOffsets": "latest"}, streaming=True)


def test_a_read_needs_brokers_and_topics() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap, bootstrap\.servers, kafka\.bootstrap\.servers is needed"):
        source_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(ConfigError, match="subscribe, subscribePattern, assign is needed"):
        source_options({"bootstrap": "h:1"}, streaming=False)
    with pytest.raises(ConfigError, match="subscribe is empty"):
        source_options({"bootstrap": "h:1", "subscribe": " , "}, streaming=False)
    with pytest.raises(ConfigError, match="not a regular expression"):
        source_options({"bootstrap": "h:1", "subscribePattern": "("}, streaming=False)
    with pytest.raises(ConfigError, match="assign='x' must be JSON"):
        source_options({"bootstrap": "h:1", "assign": "x"}, streaming=False)


def test_the_sink_does_not_let_acks_be_weakened() -> None:
    assert sink_options({"bootstrap": "h:1", "kafka.acks": "all"}).client == {}
    with pytest.raises(ConfigError, match="acks=all"):
        sink_options({"bootstrap": "h:1", "kafka.acks": "1"})


def test_the_time_limit_of_planning_is_the_admins_and_the_other_parts_do_not_see_it() -> None:
    given = {"bootstrap": "h:1", "kafka.default.api.timeout.ms": "180000", "kafka.fetch.max.wait.ms": "7"}
    source = source_options({**given, "subscribe": "t"}, streaming=True)
    assert source.client == {"default_api_timeout_ms": 180_000, "fetch_max_wait_ms": 7} and not source.without_effect
    assert options_of(AdminConfig, source.client) == {"default_api_timeout_ms": 180_000}
    assert options_of(ConsumerConfig, source.client) == {"fetch_max_wait_ms": 7}
    assert sink_options({**given, "topic": "t"}).client == {}
    with pytest.raises(ConfigError, match=r"option kafka.default.api.timeout.ms=0 must be"):
        source_options({**given, "subscribe": "t", "kafka.default.api.timeout.ms": "0"}, streaming=True)
