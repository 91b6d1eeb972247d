"""Each principal has a share of the cluster's partitions, and one that fills its own leaves others theirs. Every change
also passes the codec, the image and the state, which the harness compares."""

from __future__ import annotations

from dataclasses import replace

from metadata.broker_config import BrokerConfigs
from metadata.codec import decode_record, encode_record
from metadata.controller.config import ControllerConfig
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, image_records
from metadata.internal_topics import CONSUMER_OFFSETS
from metadata.records import ALL_BROKERS, TOPIC_OWNER_RESOURCE, RemoveTopicRecord, TopicRecord
from penstock.config_keys import Update, integer
from penstock.errors import ApiError, PolicyViolationError
from penstock.messages.configs import ConfigResource
from penstock.messages.topics import CreateInternalTopicRequest, CreateTopicsRequest, NewPartitions, NewTopic
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error

ANNA, BOB, CARL = "User:anna", "User:bob", "User:carl"
KEY = "max.partitions.per.principal.percent"


def cluster_of(partitions_max: int, percent: int = 50, **limits: int) -> Cluster:
    keys = {KEY: replace(integer(KEY, 50, "", 1, 100), update=Update.CLUSTER)}
    config = ControllerConfig(
        CLUSTER_ID,
        max_partitions=partitions_max,
        max_partitions_per_principal_percent=percent,
        broker_configs=BrokerConfigs(keys),
        **limits,  # type: ignore[arg-type]
    )
    return Cluster(brokers=1, config=config)


def made(cluster: Cluster, name: str, partitions: int, principal: str = "") -> ApiError | None:
    return cluster.create_all(NewTopic(name, partitions, 1), principal=principal)[0].error


def grown(cluster: Cluster, name: str, total: int, principal: str = "") -> ApiError | None:
    return cluster.add_partitions(NewPartitions(name, total), principal=principal)[0].error


def flooded(cluster: Cluster, principal: str) -> int:
    """The principal makes topics of one partition until one is refused; how many there are."""
    count = 0
    while made(cluster, f"{principal.removeprefix('User:')}-{count}", 1, principal) is None:
        count += 1
    return count


def owners(cluster: Cluster) -> dict[str, str]:
    """By name, as the image has them."""
    configs, topics = cluster.image.configs, cluster.image.topics_by_name.values()
    resources = {topic.name: ConfigResource(TOPIC_OWNER_RESOURCE, topic.topic_id) for topic in topics}
    return {name: configs[resource]["principal"] for name, resource in resources.items() if resource in configs}


def test_a_principal_that_floods_has_half_and_each_that_comes_later_half_of_what_stays() -> None:
    cluster = cluster_of(100)
    assert [flooded(cluster, principal) for principal in (ANNA, BOB, CARL)] == [50, 25, 12]
    assert made(cluster, "d", 6, "User:dora") is None


def test_the_refusal_says_who_has_how_many_and_what_helps() -> None:
    cluster = cluster_of(100)
    made(cluster, "old", 20)
    assert made(cluster, "a", 30, ANNA) is None
    error = made(cluster, "b", 11, ANNA)
    assert is_error(error, PolicyViolationError, "topics of User:anna would have 41 partitions with those of topic b")
    assert is_error(
        error, PolicyViolationError, "its share is 40: 50 % of those", "cluster's 100", "Delete topics", KEY
    )
    assert made(cluster, "b", 10, ANNA) is None


def test_the_topics_of_one_request_count_together_by_placement_and_by_hand() -> None:
    cluster = cluster_of(20)
    results = cluster.create_all(*(NewTopic(name, 4, 1) for name in "abc"), validate_only=True, principal=ANNA)
    assert [result.error is None for result in results] == [True, True, False]
    results = cluster.create_all(*(NewTopic(name, 4, 1) for name in "abc"), principal=ANNA)
    assert [result.error is None for result in results] == [True, True, False]
    assert owners(cluster) == {"a": ANNA, "b": ANNA}


def test_deleted_topics_give_back_what_they_had_and_leave_no_record() -> None:
    cluster = cluster_of(20)
    assert made(cluster, "a", 10, ANNA) is None and made(cluster, "b", 1, ANNA) is not None
    cluster.delete("a")
    assert not cluster.image.configs
    assert made(cluster, "b", 10, ANNA) is None


def test_new_partitions_count_to_the_topics_owner_whoever_asks() -> None:
    cluster = cluster_of(20)
    made(cluster, "a", 4, ANNA)
    assert grown(cluster, "a", 10, BOB) is None
    assert is_error(grown(cluster, "a", 11, BOB), PolicyViolationError, "topics of User:anna would have 11 partitions")
    assert flooded(cluster, BOB) == 5 and owners(cluster)["a"] == ANNA


def test_several_topics_of_one_request_for_more_partitions_count_by_owner() -> None:
    cluster = cluster_of(20)
    for name, owner in (("a", ANNA), ("b", ANNA), ("c", BOB)):
        made(cluster, name, 1, owner)
    wanted = (NewPartitions(name, total) for name, total in (("a", 6), ("b", 4), ("c", 5)))
    assert [one.error is None for one in cluster.add_partitions(*wanted, principal=ANNA)] == [True, False, True]
    assert is_error(grown(cluster, "c", 7, ANNA), PolicyViolationError, "User:bob would have 7", "share is 6")


def test_who_has_no_share_is_not_limited_and_still_counts_to_the_owner() -> None:
    cluster = cluster_of(20)
    made(cluster, "a", 9, ANNA)
    assert grown(cluster, "a", 15) is None
    assert is_error(grown(cluster, "a", 16, ANNA), PolicyViolationError, "have 16")
    assert made(cluster, "of-the-administrator", 5) is None and owners(cluster) == {"a": ANNA}


def test_a_topic_without_an_owner_becomes_that_of_a_principal_that_adds_partitions() -> None:
    cluster = cluster_of(40)
    made(cluster, "old", 5)
    made(cluster, "other", 5)
    assert grown(cluster, "old", 6, ANNA) is None
    assert owners(cluster) == {"old": ANNA}
    assert is_error(grown(cluster, "other", 15, ANNA), PolicyViolationError, "would have 21", "share is 20")
    assert owners(cluster) == {"old": ANNA}
    old, other = cluster.add_partitions(NewPartitions("old", 7), NewPartitions("other", 14), principal=ANNA)
    assert old.error is None and is_error(other.error, PolicyViolationError, "would have 21")
    assert grown(cluster, "other", 13, ANNA) is None and owners(cluster) == {"old": ANNA, "other": ANNA}
    cluster.delete("old", "other")
    assert flooded(cluster, ANNA) == 20


def test_internal_topics_are_nobodys() -> None:
    cluster = cluster_of(100)
    epoch = cluster.image.brokers[1].broker_epoch
    request = CreateInternalTopicRequest(1, epoch, CONSUMER_OFFSETS, 50, 1)
    cluster.commit(cluster.controller.create_internal_topic(request, 0))
    assert owners(cluster) == {} and flooded(cluster, ANNA) == 25


def test_with_100_percent_the_limit_of_the_cluster_is_the_only_one() -> None:
    assert flooded(cluster_of(20, percent=100), ANNA) == 20
    assert flooded(cluster_of(20, percent=1), ANNA) == 0


def test_the_percentage_changes_for_the_whole_cluster_while_it_runs() -> None:
    cluster = cluster_of(20)
    assert flooded(cluster, ANNA) == 10
    assert cluster.configure(ALL_BROKERS, {KEY: "75"}, "broker") is None
    assert made(cluster, "more", 5, ANNA) is None and made(cluster, "one", 1, ANNA) is not None


def test_shares_are_the_same_after_a_failover_from_a_snapshot_and_by_replay() -> None:
    cluster = cluster_of(20)
    made(cluster, "a", 4, ANNA)
    made(cluster, "b", 2, BOB)
    made(cluster, "gone", 3, ANNA)
    cluster.delete("gone")
    cluster.fail_over()
    assert cluster.controller.to_image(cluster.image.epoch) == cluster.image
    snapshot = MetadataDelta(EMPTY_IMAGE)
    for record in image_records(cluster.image):
        snapshot.replay(decode_record(encode_record(record)))
    assert snapshot.apply(cluster.image.offset, cluster.image.epoch) == cluster.image
    assert is_error(made(cluster, "c", 6, ANNA), PolicyViolationError, "would have 10", "share is 9")
    assert made(cluster, "c", 5, ANNA) is None


def test_the_owner_is_a_record_that_an_older_release_reads() -> None:
    """A field of TopicRecord would stop each node of it at the first topic."""
    cluster = cluster_of(20)
    made(cluster, "a", 1, ANNA)
    (topic_id,) = cluster.image.topics_by_id
    mine = b'{"type":"Config","version":0,"resource_type":"topic-owner","resource_name":"%s","key":"principal"'
    assert mine % topic_id.encode() + b',"value":"User:anna"}' in map(encode_record, cluster.log)
    assert encode_record(TopicRecord("a", topic_id)) in map(encode_record, cluster.log)


def test_a_topic_that_an_older_controller_deleted_gives_back_and_its_owner_is_forgotten() -> None:
    cluster = cluster_of(20)
    made(cluster, "a", 10, ANNA)
    cluster.commit_record(RemoveTopicRecord(cluster.image.topics_by_name["a"].topic_id))
    assert made(cluster, "b", 10, ANNA) is None
    assert len(cluster.image.configs) == 2
    cluster.fail_over()
    cluster.tick()
    assert owners(cluster) == {"b": ANNA} and len(cluster.image.configs) == 1
    assert made(cluster, "c", 1, ANNA) is not None


def test_the_owners_record_counts_for_the_largest_batch() -> None:
    cluster = cluster_of(100, max_records_per_decision=6)
    assert made(cluster, "a", 5) is None
    assert is_error(made(cluster, "b", 5, ANNA), PolicyViolationError, "7 records")
    assert is_error(grown(cluster, "a", 11, ANNA), PolicyViolationError, "7 records")
    assert made(cluster, "b", 4, ANNA) is None and grown(cluster, "a", 10, ANNA) is None


def test_the_largest_topic_can_have_an_owner() -> None:
    cluster = Cluster(brokers=3)
    largest = cluster.config.max_partitions_per_topic
    request = CreateTopicsRequest((NewTopic("t", largest, 3),), principal=ANNA)
    assert len(cluster.controller.create_topics(request, 0).records) == 2 + largest
