"""Promises of Kafka's APIs of quotas: entities, defaults and errors as Kafka's clients write and read them."""

from __future__ import annotations

from broker.kafka.apis import quotas
from broker.kafka.schemas.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
    ValueData,
)
from penstock.errors import InvalidRequestError, NotControllerError
from penstock.messages.security.quotas import (
    AlterClientQuotasResponse,
    AlteredQuota,
    ClientQuota,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaChange,
    QuotaEntity,
    QuotaFilterPart,
    QuotaMatch,
    QuotaValue,
)
from tests.support.kafka_plans import asked, ended, first_ask, read_by_client


def entity(*parts: tuple[str, str | None]) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in parts]


def test_a_description_has_no_name_for_everybody() -> None:
    body = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type="user", match_type=2),
            ComponentData(entity_type="client-id", match_type=1),
            ComponentData(entity_type="ip", match_type=0, match="10.0.0.1"),
            ComponentData(entity_type="user", match_type=9),
        ],
        strict=True,
    )
    plan = quotas.describe_client_quotas(asked(1), body)
    request = first_ask(plan, "DescribeClientQuotas")
    assert request.strict and request.parts == (
        QuotaFilterPart("user", QuotaMatch.ANY),
        QuotaFilterPart("client-id", QuotaMatch.DEFAULT),
        QuotaFilterPart("ip", QuotaMatch.EXACT, "10.0.0.1"),
        QuotaFilterPart("user", QuotaMatch.UNKNOWN),
    )
    answer = ClientQuota(QuotaEntity("anna", ""), (QuotaValue("producer_byte_rate", 5.0),))
    (entry,) = read_by_client(ended(plan, DescribeClientQuotasResponse((answer,))), 1).entries
    assert entry.entity == entity(("user", "anna"), ("client-id", None))
    assert entry.values == [ValueData(key="producer_byte_rate", value=5.0)]


def test_a_description_that_failed_has_no_entries() -> None:
    failed = quotas.describe_client_quotas_failed(asked(1), DescribeClientQuotasRequest(), InvalidRequestError("no"))
    answer = read_by_client(failed, 1)
    assert (answer.error_code, answer.error_message, answer.entries) == (42, "no", None)


def test_entries_that_name_no_entity_have_their_errors_in_their_places() -> None:
    bad = [entity(("host", "h")), entity(("user", "a"), ("user", "b")), entity(("user", ""))]
    good = entity(("client-id", None), ("user", "anna"))
    ops = [OpData(key="producer_byte_rate", value=5.0), OpData(key="request_percentage", remove=True)]
    body = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntryData(entity=one, ops=ops) for one in (bad[0], good, *bad[1:])],
        validate_only=True,
    )
    plan = quotas.alter_client_quotas(asked(1), body)
    request = first_ask(plan, "AlterClientQuotas")
    changes = QuotaChange("producer_byte_rate", 5.0), QuotaChange("request_percentage")
    assert request.validate_only and request.alterations == (QuotaAlteration(QuotaEntity("anna", ""), changes),)
    response = AlterClientQuotasResponse((AlteredQuota(QuotaEntity("anna", "")),))
    answer = read_by_client(ended(plan, response), 1)
    assert [one.error_code for one in answer.entries] == [42, 0, 42, 42]
    assert answer.entries[1].entity == good


def test_an_address_is_named_as_it_is_and_each_other_has_no_name() -> None:
    ops = [OpData(key="connection_creation_rate", value=5.0)]
    named, each = entity(("ip", "10.0.0.1")), entity(("ip", None))
    body = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntryData(entity=one, ops=ops) for one in (named, each)]
    )
    request = first_ask(quotas.alter_client_quotas(asked(1), body), "AlterClientQuotas")
    assert [one.entity for one in request.alterations] == [QuotaEntity(ip="10.0.0.1"), QuotaEntity(ip="")]


def test_an_alteration_that_failed_names_every_entity() -> None:
    body = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntryData(entity=entity(("user", "anna")), ops=[])]
    )
    answer = read_by_client(quotas.alter_client_quotas_failed(asked(1), body, NotControllerError("no")), 1)
    assert [(one.error_code, one.entity) for one in answer.entries] == [(41, entity(("user", "anna")))]
