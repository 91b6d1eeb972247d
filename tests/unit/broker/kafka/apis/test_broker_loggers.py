"""Promises of the loggers of a broker, and of the list of what has configuration, in Kafka's protocol."""

from __future__ import annotations

import logging

import pytest

from broker.kafka.apis.admin.broker_loggers import logger_configs, with_changes
from broker.kafka.schemas.configs import (
    ListConfigResourcesRequest,
)
from penstock.errors import InvalidConfigError, InvalidRequestError
from penstock.messages.configs import ConfigChange
from tests.unit.broker.kafka.apis.admin_node import AdminNode
from tests.unit.broker.kafka.apis.test_configs import (
    APPEND,
    BROKER,
    DELETE,
    DESCRIBE,
    GROUP,
    INCREMENTAL,
    LIST,
    LOGGER,
    METRICS,
    SET,
    TOPIC,
    describing,
    incremental,
    outcomes,
)

# -- loggers -----------------------------------------------------------------------------------------------------------


def loggers(node: AdminNode) -> dict[str, str]:
    (result,) = node.call(DESCRIBE, describing((LOGGER, "1", None)), 4).results
    assert all(entry.config_source == 6 for entry in result.configs)
    return {entry.name: entry.value for entry in result.configs}


def test_the_loggers_of_a_broker_are_described_and_changed() -> None:
    node = AdminNode(logger_level="warning,raft=debug")
    logging.getLogger("raft.a_module")
    before = loggers(node)
    assert {before[name] for name in ("root", "broker", "metadata", "penstock", "storage")} == {"WARN"}
    assert before["raft"] == before["raft.a_module"] == "DEBUG" and "asyncio" not in before
    changes = [("broker.kafka", SET, "TRACE"), ("raft", DELETE, None), ("root", SET, "ERROR")]
    assert outcomes(node.call(INCREMENTAL, incremental((LOGGER, "1", changes)), 1)) == [(LOGGER, "1", 0)]
    assert node.cluster.image.configs["broker", "1"] == {"logger.level": "error,broker.kafka=debug"}
    assert loggers(node)["broker.kafka"] == "DEBUG" and loggers(node)["raft"] == "ERROR"


@pytest.mark.parametrize(("name", "change", "code"), [
    ("1", ("root", DELETE, None), 42),
    ("1", ("raft", SET, "LOUD"), 40),
    ("1", ("raft", APPEND, "INFO"), 42),
    ("1", ("nowhere", SET, "INFO"), 40),
    ("2", ("raft", SET, "INFO"), 42),
    ("", ("raft", SET, "INFO"), 42),
])  # fmt: skip
def test_a_bad_level_of_a_logger_changes_none(name: str, change: tuple[str, int, str | None], code: int) -> None:
    node = AdminNode(2)
    assert outcomes(node.call(INCREMENTAL, incremental((LOGGER, name, [change])), 1)) == [(LOGGER, name, code)]
    assert not node.cluster.image.configs


def test_levels_are_written_as_the_node_reads_them() -> None:
    assert with_changes("info", []) == "info" and with_changes("raft=error", []) == "info,raft=error"
    assert [(e.name, e.value) for e in logger_configs("error, raft.core=info")][:2] == [
        ("root", "ERROR"),
        ("broker", "ERROR"),
    ]
    with pytest.raises(InvalidRequestError):
        with_changes("info", [ConfigChange("root", DELETE)])
    with pytest.raises(InvalidConfigError):
        with_changes("info", [ConfigChange("raft", SET, "info")])


# -- ListConfigResources -----------------------------------------------------------------------------------------------


def test_resources_are_listed_by_their_types() -> None:
    node = AdminNode(2)
    for name in ("b", "a"):
        node.cluster.create(name)

    def listed(version: int, *types: int) -> list[tuple[int, str]]:
        answer = node.call(LIST, ListConfigResourcesRequest(resource_types=list(types)), version)
        assert answer.error_code == 0
        return [(one.resource_type, one.resource_name) for one in answer.config_resources]

    brokers = [(BROKER, "1"), (BROKER, "2")]
    assert listed(1) == [(TOPIC, "a"), (TOPIC, "b"), *brokers, (LOGGER, "1"), (LOGGER, "2")]
    assert listed(1, BROKER) == brokers and listed(1, METRICS, GROUP) == [] and listed(0) == []
    assert node.call(LIST, ListConfigResourcesRequest(resource_types=[3]), 1).error_code == 35
