"""Promises of the controller about feature levels: who hinders a raise, what a lowering loses, who may join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from metadata.controller.config import ControllerConfig
from metadata.controller.features import HeardNode
from metadata.features import METADATA_VERSION, TABLE, FeatureTable
from metadata.records import FeatureLevelRecord, RegisterBrokerRecord
from penstock.errors import (
    ApiError,
    InvalidRegistrationError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    InvariantViolation,
)
from penstock.messages.features import (
    FeatureUpdate,
    FeatureUpgradeType,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster
from tests.unit.metadata.test_features import LATER, OLD

UP, SAFE, UNSAFE = FeatureUpgradeType.UPGRADE, FeatureUpgradeType.SAFE_DOWNGRADE, FeatureUpgradeType.UNSAFE_DOWNGRADE
GROUP, TRANSACTION = "group.version", "transaction.version"


def node(node_id: int, says: FeatureTable = TABLE, *, votes: bool = True, heard: bool = True) -> HeardNode:
    return HeardNode(node_id, votes, heard, says.said, 0 if heard else 60_000)


ALL = (node(1), node(2), node(3))


def cluster_of(brokers: int = 3, table: FeatureTable = TABLE) -> Cluster:
    config = ControllerConfig(CLUSTER_ID, session_timeout_ms=SESSION_TIMEOUT_MS, features=table)
    cluster = Cluster(config=config)
    for broker_id in range(1, brokers + 1):
        cluster.start(broker_id, features=table.said)
    return cluster


def update(
    cluster: Cluster,
    levels: Mapping[str, int],
    kind: FeatureUpgradeType = UP,
    nodes: Sequence[HeardNode] = ALL,
    *,
    only_check: bool = False,
) -> UpdateFeaturesResponse:
    updates = tuple(FeatureUpdate(name, level, kind) for name, level in levels.items())
    return cluster.commit(cluster.controller.update_features(UpdateFeaturesRequest(updates, only_check), nodes))


def refusal(answer: UpdateFeaturesResponse) -> str:
    assert isinstance(answer.error, InvalidUpdateVersionError)
    return answer.error.message


def levels_of(cluster: Cluster) -> dict[str, int]:
    return {name: found.level for name, found in cluster.image.levels.items()}


def test_a_level_that_every_node_knows_is_raised_by_a_record_that_names_its_release() -> None:
    cluster = cluster_of()
    answer = update(cluster, {METADATA_VERSION: 2})
    assert answer.error is None and [(r.name, r.level, r.error) for r in answer.results] == [
        (METADATA_VERSION, 1, None)
    ]
    assert cluster.log[-1] == FeatureLevelRecord(METADATA_VERSION, 2, "0.3.0")


@pytest.mark.parametrize(
    ("nodes", "brokers", "expected"),
    [
        ((*ALL[:2], node(3, OLD)), 3, "node 3 is too old, it knows metadata.version 1: install release 0.3.0"),
        ((*ALL[:2], node(3, heard=False)), 3, "node 3 is away.*start it.*brokers unregister 3.*quorum remove-voter"),
        (ALL[:2], 3, r"node 3 is away.*brokers unregister 3`\)$"),
        ((*ALL[:2], node(3, heard=False)), 2, r"node 3 is away.*start it .*its disk\), or remove it from the voters"),
        ((*ALL, node(9, OLD, votes=False)), 3, "node 9 is too old"),
        ((*ALL[:2], HeardNode(3, True, True, "nonsense", 0)), 3, "node 3 is too old, it says nothing that can be read"),
        ((*ALL, node(3, OLD, votes=False)), 3, "node 3 is too old"),
    ],
    ids=["old voter", "silent voter", "broker away", "voter away", "observer", "nonsense", "a second disk of its id"],
)
def test_a_raise_is_refused_by_the_name_of_each_node_that_is_not_known_to_know_it(
    nodes: Sequence[HeardNode], brokers: int, expected: str
) -> None:
    cluster = cluster_of(brokers)
    answer = update(cluster, {METADATA_VERSION: 2}, nodes=nodes)
    with pytest.raises(InvalidUpdateVersionError, match=expected):
        raise answer.error or AssertionError
    assert len(answer.hindrances) == 1 and levels_of(cluster) == {}


def test_a_fenced_broker_hinders_a_raise_until_it_is_forgotten() -> None:
    cluster = cluster_of()
    cluster.let_die(3)
    assert "node 3 is away" in refusal(update(cluster, {METADATA_VERSION: 2}, nodes=ALL[:2]))


def test_an_error_names_ten_nodes_and_counts_the_others() -> None:
    nodes = tuple(node(node_id, OLD) for node_id in range(1, 16))
    answer = update(cluster_of(0), {METADATA_VERSION: 2}, nodes=nodes)
    assert "and 5 more" in refusal(answer) and len(answer.hindrances) == 15


def test_registrations_say_what_a_broker_supports_from_version_2_on() -> None:
    cluster = cluster_of(1)
    assert cluster.image.brokers[1].features == ""
    update(cluster, {METADATA_VERSION: 2})
    cluster.start(4, features=TABLE.said)
    assert cluster.image.brokers[4].features == TABLE.said
    update(cluster, {METADATA_VERSION: 1}, SAFE)
    assert cluster.image.brokers[4].features == "" and cluster.image.levels == {}
    cluster.start(5, features=TABLE.said)
    assert cluster.image.brokers[5].features == ""


@pytest.mark.parametrize("said", ["", TABLE.said.replace("metadata.version=1-2", "metadata.version=3-4")])
def test_a_broker_that_does_not_know_a_finalized_level_may_not_join(said: str) -> None:
    cluster = cluster_of()
    update(cluster, {METADATA_VERSION: 2})
    with pytest.raises(InvalidRegistrationError, match=r"metadata.version is 2 in this cluster.*Install release 0.3.0"):
        cluster.register(4, features=said)
    assert 4 not in cluster.image.brokers


def test_a_broker_that_says_nothing_joins_at_version_1_and_one_that_says_nonsense_never() -> None:
    cluster = cluster_of()
    cluster.register(4, features="")
    with pytest.raises(InvalidRequestError, match="NAME=FIRST-LAST"):
        cluster.register(5, features="metadata.version")


def test_a_broker_must_know_every_feature_that_has_a_level_above_0() -> None:
    cluster = cluster_of(table=LATER)
    update(cluster, {METADATA_VERSION: 3}, nodes=(node(1, LATER), node(2, LATER), node(3, LATER)))
    with pytest.raises(
        InvalidRegistrationError, match=r"is 3 in this.*it knows metadata.version 1 to 2.*release 0.4.0"
    ):
        cluster.register(4, features=TABLE.said)


def test_a_safe_downgrade_gives_up_no_level_and_an_unsafe_one_says_which() -> None:
    cluster = cluster_of()
    update(cluster, {METADATA_VERSION: 2})
    update(cluster, {GROUP: 0}, SAFE)
    assert "group.version 0, which would be lost" in refusal(update(cluster, {METADATA_VERSION: 1}, SAFE))
    answer = update(cluster, {METADATA_VERSION: 1}, UNSAFE, only_check=True)
    assert answer.lost == ("group.version 0: without a record it is 1",) and levels_of(cluster) == {
        METADATA_VERSION: 2,
        GROUP: 0,
    }
    assert update(cluster, {METADATA_VERSION: 1}, UNSAFE).error is None
    assert levels_of(cluster) == {}


def test_a_level_that_is_put_back_in_the_same_request_is_not_lost() -> None:
    cluster = cluster_of()
    update(cluster, {METADATA_VERSION: 2, GROUP: 0}, UP, only_check=True)
    update(cluster, {METADATA_VERSION: 2})
    update(cluster, {TRANSACTION: 1}, SAFE)
    mixed = (FeatureUpdate(TRANSACTION, 2, UP), FeatureUpdate(METADATA_VERSION, 1, SAFE))
    answer = cluster.commit(cluster.controller.update_features(UpdateFeaturesRequest(mixed), ALL))
    assert answer.error is None and cluster.log[-1] == FeatureLevelRecord(METADATA_VERSION, 1, "0.2.0")


def test_metadata_version_is_raised_before_what_needs_it() -> None:
    cluster = cluster_of()
    mixed = (FeatureUpdate(GROUP, 0, SAFE), FeatureUpdate(METADATA_VERSION, 2, UP))
    cluster.commit(cluster.controller.update_features(UpdateFeaturesRequest(mixed), ALL))
    assert [record.name for record in cluster.log[-2:] if isinstance(record, FeatureLevelRecord)] == [
        METADATA_VERSION,
        GROUP,
    ]


@pytest.mark.parametrize(
    ("levels", "kind", "expected"),
    [
        ({"no.such": 1}, UP, "'no.such' is no feature"),
        ({"kraft.version": 1}, UP, "is no feature that can be given a level here"),
        ({METADATA_VERSION: 3}, UP, "the active controller does not know it, it knows metadata.version 1 to 2"),
        ({METADATA_VERSION: 0}, UNSAFE, "it knows metadata.version 1 to 2"),
        ({METADATA_VERSION: -1}, UNSAFE, "it knows metadata.version 1 to 2"),
        ({METADATA_VERSION: 99_999}, UP, "it knows metadata.version 1 to 2"),
        ({METADATA_VERSION: 2}, SAFE, "2 is higher: ask for an upgrade"),
        ({GROUP: 0}, UP, "0 is lower: ask for a downgrade"),
        ({GROUP: 0}, SAFE, "group.version can be changed from metadata.version 2 on"),
        ({"x" * 500: 1}, UP, f"'{'x' * 64}' is no"),
    ],
)
def test_an_update_that_cannot_be_is_refused_with_what_could(
    levels: Mapping[str, int], kind: FeatureUpgradeType, expected: str
) -> None:
    cluster = cluster_of()
    assert expected in refusal(update(cluster, levels, kind)) and levels_of(cluster) == {}


def test_nothing_is_changed_where_one_update_is_refused() -> None:
    cluster = cluster_of()
    answer = update(cluster, {METADATA_VERSION: 2, "no.such": 1})
    assert levels_of(cluster) == {} and "'no.such'" in refusal(answer)
    beside = answer.results[0].error
    assert isinstance(beside, ApiError) and "another update of the request is refused" in beside.message


def test_a_check_changes_nothing_and_an_update_to_the_present_level_is_none() -> None:
    cluster = cluster_of()
    assert update(cluster, {METADATA_VERSION: 2}, only_check=True).error is None and levels_of(cluster) == {}
    count = len(cluster.log)
    assert update(cluster, {METADATA_VERSION: 1, GROUP: 1}).error is None and len(cluster.log) == count
    with pytest.raises(InvalidRequestError, match="twice"):
        cluster.controller.update_features(
            UpdateFeaturesRequest((FeatureUpdate(GROUP, 1), FeatureUpdate(GROUP, 1))), ALL
        )


def test_a_new_cluster_begins_with_levels_and_one_that_has_begun_does_not() -> None:
    cluster = cluster_of(0)
    answer = cluster.commit(cluster.controller.first_levels(TABLE.newest(), ALL))
    assert answer == ("the cluster begins with metadata.version 2",) and levels_of(cluster) == {METADATA_VERSION: 2}
    assert cluster.controller.first_levels(TABLE.newest(), ALL).records == ()
    begun = cluster_of(1)
    assert begun.controller.first_levels(TABLE.newest(), ALL).records == ()
    assert cluster_of(0).controller.first_levels({METADATA_VERSION: 1}, ALL).records == ()


def test_a_new_cluster_with_a_voter_of_an_older_release_stays_at_the_levels_of_that() -> None:
    cluster = cluster_of(0)
    first = cluster.controller.first_levels(TABLE.newest(), (*ALL[:2], node(3, OLD)))
    assert first.records == () and "node 3 is too old" in first.response[0]
    unheard = replace(node(3, OLD), is_heard=False, last_heard_ms_ago=-1)
    assert cluster.controller.first_levels(TABLE.newest(), (*ALL[:2], unheard)).records
    assert "this node is too old" in cluster.controller.first_levels({METADATA_VERSION: 9}, ALL).response[0]


@pytest.mark.parametrize(
    "record",
    [FeatureLevelRecord(GROUP, 0, "0.2.0"), RegisterBrokerRecord(1, "i", 0, "h", 1, features=TABLE.said)],
)
def test_no_record_is_written_above_the_finalized_level(record: FeatureLevelRecord | RegisterBrokerRecord) -> None:
    cluster = cluster_of(0)
    with pytest.raises(InvariantViolation, match=r"must not be written at metadata\.version 1"):
        cluster.controller.check_is_readable((record,))
    cluster.controller.check_is_readable((FeatureLevelRecord(METADATA_VERSION, 2, "0.3.0"), record))


def test_a_level_is_not_lowered_below_what_a_node_still_supports() -> None:
    newer = FeatureTable(
        replace(one, levels=one.levels[1:]) if one.name == METADATA_VERSION else one for one in LATER.features.values()
    )
    assert newer.ranges[METADATA_VERSION] == (2, 3)
    message = r"node 3 is too new, it knows metadata\.version 2 to 3: install a release there that still knows 1"
    for kind in (SAFE, UNSAFE):
        cluster = cluster_of()
        update(cluster, {METADATA_VERSION: 2})
        answer = update(cluster, {METADATA_VERSION: 1}, kind, (*ALL[:2], node(3, newer)), only_check=kind is UNSAFE)
        with pytest.raises(InvalidUpdateVersionError, match=message):
            raise answer.error or AssertionError
        assert [one.node_id for one in answer.hindrances] == [3] and levels_of(cluster)[METADATA_VERSION] == 2
        assert update(cluster, {METADATA_VERSION: 1}, kind).error is None


def test_a_broker_that_is_away_hinders_a_lowering_by_what_its_registration_says() -> None:
    newer = FeatureTable(
        replace(one, levels=one.levels[1:]) if one.name == METADATA_VERSION else one for one in LATER.features.values()
    )
    cluster = cluster_of()
    update(cluster, {METADATA_VERSION: 2})
    cluster.start(4, features=newer.said)
    away = (*ALL, replace(node(4, newer, votes=False), is_heard=False))
    assert "node 4 is too new" in refusal(update(cluster, {METADATA_VERSION: 1}, SAFE, away))


def test_levels_are_the_next_controllers_too() -> None:
    cluster = cluster_of()
    update(cluster, {METADATA_VERSION: 2})
    cluster.fail_over()
    assert update(cluster, {GROUP: 0}, SAFE).error is None and levels_of(cluster)[GROUP] == 0
