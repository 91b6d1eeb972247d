"""A line shows of a request what there is, bounded, in the terms of JSON, and no secret."""

from __future__ import annotations

import json

import pytest

from broker.audit.shown import HIDDEN, VALUES_MAX, audit_view
from broker.config.keys.config_table import KEYS
from metadata.topic_config import TOPIC_CONFIGS
from penstock.messages.configs import AlterConfigsRequest, AlterConfigsResource, ConfigChange
from penstock.messages.elections import ElectLeadersRequest, NamedPartitions
from penstock.messages.security.quotas import (
    PRODUCER_BYTE_RATE,
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaChange,
    QuotaEntity,
)
from penstock.messages.security.users import AlterUserScramCredentialsRequest, ScramUpsertion
from penstock.messages.topics import NewTopic

CANARY = "canary-8d1f"


def test_credentials_are_not_shown() -> None:
    upsertion = ScramUpsertion("anna", 1, 4096, CANARY.encode(), CANARY.encode(), CANARY.encode())
    assert audit_view(AlterUserScramCredentialsRequest((), (upsertion,))) == {
        "upsertions": [{"user": "anna", "mechanism": "SCRAM_SHA_256", "iterations": 4096}]
    }


def test_values_of_keys_that_there_are_not_are_not_shown() -> None:
    changes = (ConfigChange("sasl.jaas.config", 0, CANARY), ConfigChange("retention.ms", 0, "5"), ConfigChange("a", 1))
    asked = AlterConfigsRequest((AlterConfigsResource("topic", "orders", changes),))
    assert audit_view(asked)["resources"][0]["changes"] == [
        {"key": "sasl.jaas.config", "operation": "SET", "value": HIDDEN},
        {"key": "retention.ms", "operation": "SET", "value": "5"},
        {"key": "a", "operation": "DELETE"},
    ]
    topic = NewTopic("t", config={"password": CANARY, "retention.ms": "5"})
    assert audit_view(topic)["config"] == {"password": HIDDEN, "retention.ms": "5"}


def test_no_key_of_a_configuration_is_a_secret() -> None:
    assert not [
        name for name in (*KEYS, *TOPIC_CONFIGS) if any(word in name for word in ("password", "secret", "jaas"))
    ]


def test_what_is_shown_is_bounded_and_says_how_much_more_there_is() -> None:
    asked = ElectLeadersRequest(1, (NamedPartitions("t", tuple(range(VALUES_MAX + 500))), NamedPartitions("u")))
    found = audit_view(asked)
    assert found["election_type"] == "UNCLEAN" and len(found["topics"]) == 2
    assert found["topics"][0]["partitions"][-1] == {"and_more": 501} and found["topics"][1] == {"and_more": 1}
    long = audit_view(NewTopic("n" * 1_000, config={"retention.ms": "9" * 1_000}))
    assert len(long["name"]) == len(long["config"]["retention.ms"]) == 257


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_shown_as_a_text(value: float) -> None:
    """Who reads the lines would stop at one that is no JSON, and anybody may ask for such a quota."""
    change = QuotaAlteration(QuotaEntity("anna"), (QuotaChange(PRODUCER_BYTE_RATE, value),))
    shown = audit_view(AlterClientQuotasRequest((change,)))
    assert shown["alterations"][0]["changes"] == [{"key": PRODUCER_BYTE_RATE, "value": str(value)}]
    json.dumps(shown, allow_nan=False)


def test_an_unknown_number_is_shown_as_it_came() -> None:
    assert audit_view(ElectLeadersRequest(77, None)) == {"election_type": 77, "topics": None}
