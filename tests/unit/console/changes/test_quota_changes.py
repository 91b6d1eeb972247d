"""Quotas are set and deleted as the plan says, and the command of the plan names the same."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.console.fields import FieldError
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages.security.quotas import QuotaEntity
from tests.support.console_changes import ChangeDesk, words_of


class FakeQuotas:
    def __init__(self, quotas: dict[QuotaEntity, dict[str, float]] | None = None) -> None:
        self.quotas = quotas or {}
        self.error: ApiError | None = None

    async def describe_client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return self.quotas

    async def alter_client_quotas(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, ApiError | None]:
        for entity, values in quotas.items() if not (validate_only or self.error) else ():
            has = {**self.quotas.get(entity, {}), **values}
            self.quotas[entity] = {key: value for key, value in has.items() if value is not None}
        return dict.fromkeys(quotas, self.error)


def test_quotas_are_set_after_a_plan_that_shows_what_they_were() -> None:
    quotas = FakeQuotas({QuotaEntity("anna", ""): {"producer_byte_rate": 1024.0}})
    desk = ChangeDesk(quotas)
    form = {"user": "anna", "client_id": "*", "producer_byte_rate": "2048", "request_percentage": "12.5"}
    plan = desk.plan("/alter-quota", **form)
    assert plan.lines == ("producer_byte_rate: 1024 → 2048", "request_percentage: none → 12.5")
    assert words_of(plan) == [
        *("quotas", "alter", "--user", "anna", "--client-id", "*"),
        *("--producer-byte-rate", "2048", "--request-percentage", "12.5"),
    ]
    assert quotas.quotas[QuotaEntity("anna", "")] == {"producer_byte_rate": 1024.0}
    assert desk.perform("/alter-quota", **form) == "/quotas"
    assert quotas.quotas[QuotaEntity("anna", "")] == {"producer_byte_rate": 2048.0, "request_percentage": 12.5}


def test_all_quotas_of_one_are_deleted() -> None:
    quotas = FakeQuotas({QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 5.0}})
    plan = ChangeDesk(quotas).plan("/delete-quota", ip="10.0.0.1")
    assert (words_of(plan), plan.lines) == (
        ["quotas", "delete", "--ip", "10.0.0.1"],
        ("connection_creation_rate: 5 → none",),
    )
    ChangeDesk(quotas).perform("/delete-quota", ip="10.0.0.1")
    assert quotas.quotas == {QuotaEntity(ip="10.0.0.1"): {}}


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"producer_byte_rate": "1"}, "user"),
        ({"user": "a"}, "producer_byte_rate"),
        ({"user": "a", "ip": "10.0.0.1", "producer_byte_rate": "1"}, "ip"),
        *(({"user": "a", "request_percentage": bad}, "request_percentage") for bad in ("nan", "inf", "-1", "1e9", "٣")),
        ({"user": "a", "request_percentage": "9" * 17}, "request_percentage"),
    ],
)
def test_a_form_that_is_no_quota_names_its_field(form: dict[str, str], field: str) -> None:
    with pytest.raises(FieldError) as failure:
        ChangeDesk(FakeQuotas()).plan("/alter-quota", **form)
    assert failure.value.field == field


def test_a_limit_that_the_cluster_refuses_has_no_plan() -> None:
    quotas = FakeQuotas()
    quotas.error = InvalidRequestError("0 is no limit")
    with pytest.raises(InvalidRequestError):
        ChangeDesk(quotas).plan("/alter-quota", user="a", producer_byte_rate="0")
    with pytest.raises(FieldError, match="there are no quotas"):
        ChangeDesk(quotas).plan("/delete-quota", user="a")
