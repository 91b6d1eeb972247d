"""`replica.selector.class` takes our word and Kafka's class, and says what there is for anything else."""

from __future__ import annotations

import pytest

from broker.config.config_check import rack_warnings
from tests.unit.broker.config.test_security_config import parse, refusal

KEY = "replica.selector.class"
KAFKAS = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_consumers_read_from_leaders_unless_it_is_set() -> None:
    assert parse({}).replica_selector_class == ""


@pytest.mark.parametrize("name", ["rack-aware", KAFKAS])
def test_kafkas_class_name_and_the_short_one_are_taken(name: str) -> None:
    assert parse({KEY: name}).replica_selector_class == name


@pytest.mark.parametrize("name", ["rack_aware", "com.example.MySelector"])
def test_anything_else_is_refused_with_what_there_is(name: str) -> None:
    message = refusal({KEY: name})
    assert f'{KEY} = "{name}": must be one of ' in message and f"rack-aware, {KAFKAS}" in message


def test_a_node_without_a_rack_is_told_that_nobody_is_sent_to_it() -> None:
    (line,) = rack_warnings(parse({KEY: "rack-aware"}))
    assert "broker.rack is not" in line and "set broker.rack" in line
    assert rack_warnings(parse({KEY: "rack-aware", "broker.rack": "a"})) == ()
    assert rack_warnings(parse({})) == ()
