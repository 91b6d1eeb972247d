"""The topics of the cluster's own: names that users may give to none, with configurations that the cluster can give."""

from __future__ import annotations

import pytest

from metadata.internal_topics import INTERNAL_TOPICS, check_creation, check_deletion_of_records, check_write
from metadata.topic_config import validate_topic_config
from penstock.errors import InvalidTopicError
from penstock.topic_names import validate_topic_name
from penstock.types import METADATA_TOPIC
from tests.unit.metadata.harness import Cluster


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_nobody_creates_writes_or_empties_a_topic_of_the_clusters_own(name: str) -> None:
    checks = (check_creation, "reserved"), (check_write, "write to it"), (check_deletion_of_records, "deleted")
    for check, says in checks:
        with pytest.raises(InvalidTopicError, match=says):
            check(name)
    with pytest.raises(InvalidTopicError, match="collides"):
        check_creation(name.replace("_", ".", 1))


@pytest.mark.parametrize("name", ["orders", "__consumer_offset", "_consumer_offsets", "consumer_offsets", "__offsets"])
def test_any_other_name_is_free(name: str) -> None:
    check_creation(name)
    check_write(name)
    check_deletion_of_records(name)
    assert Cluster(brokers=1).create(name).error is None


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_the_configuration_of_a_row_is_one_that_a_topic_can_have(name: str) -> None:
    typed = validate_topic_config(INTERNAL_TOPICS[name].config)
    if name != METADATA_TOPIC:  # a log with a configuration of its own, and the only one that no client may ask for
        validate_topic_name(name)
        assert typed["cleanup.policy"] == ("compact",) and typed["segment.bytes"] == 100 << 20
