"""`penstock quotas`: sets, shows and removes quotas, with `*` for everybody."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from penstock.cli.security import quotas
from penstock.client.admin.admin_types import QuotaEntity
from penstock.errors import ApiError, ConfigError, InvalidRequestError, ResourceNotFoundError


class FakeAdmin:
    def __init__(self) -> None:
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}

    def describe_client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return self.quotas

    def alter_client_quotas(
        self, wanted: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> dict[QuotaEntity, ApiError | None]:
        ((entity, values),) = wanted.items()
        if entity.user == "refused":
            return {entity: InvalidRequestError("no")}
        own = {**self.quotas.pop(entity, {}), **values}
        left = {key: value for key, value in own.items() if value is not None}
        if left:
            self.quotas[entity] = left
        return {entity: None}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin()

    @contextlib.contextmanager
    def patient(bootstrap: Any) -> Iterator[FakeAdmin]:
        yield made

    monkeypatch.setattr(quotas, "patient_admin", patient)
    return made


def test_quotas_are_set_shown_and_removed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    quotas.set_quotas("anna", producer_byte_rate=1_000_000, request_percentage=0.5)
    quotas.set_quotas("*", "*", consumer_byte_rate=7)
    quotas.set_quotas("anna", producer_byte_rate=2_000_000)
    assert capsys.readouterr().out.splitlines()[0] == "set the quotas of user 'anna'"
    assert admin.quotas == {
        QuotaEntity("anna"): {"producer_byte_rate": 2_000_000, "request_percentage": 0.5},
        QuotaEntity("", ""): {"consumer_byte_rate": 7},
    }
    quotas.list_quotas()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["anna", "producer_byte_rate", "2000000"] in lines and ["*", "*", "consumer_byte_rate", "7"] in lines
    assert ["anna", "request_percentage", "0.5"] in lines
    quotas.remove("anna")
    assert capsys.readouterr().out == "removed the quotas of user 'anna'\n"
    quotas.list_quotas(as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"user": "*", "client-id": "*", "quotas": {"consumer_byte_rate": 7}}]


def test_an_address_has_a_rate_of_new_connections(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    quotas.set_quotas(ip="10.0.0.1", connection_creation_rate=20)
    quotas.set_quotas(ip="*", connection_creation_rate=5)
    assert capsys.readouterr().out.splitlines() == ["set the quotas of ip '10.0.0.1'", "set the quotas of every ip"]
    quotas.list_quotas()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["10.0.0.1", "connection_creation_rate", "20"] in lines and ["*", "connection_creation_rate", "5"] in lines
    quotas.remove(ip="*")
    assert set(admin.quotas) == {QuotaEntity(ip="10.0.0.1")}


def test_what_is_wrong_is_said_with_its_remedy(admin: FakeAdmin) -> None:
    with pytest.raises(ConfigError, match="--client-id, or both"):
        quotas.set_quotas(producer_byte_rate=1)
    with pytest.raises(ConfigError, match="--user is empty"):
        quotas.set_quotas("", producer_byte_rate=1)
    with pytest.raises(ConfigError, match="--ip is empty"):
        quotas.set_quotas(ip="", connection_creation_rate=1)
    with pytest.raises(ConfigError, match="give --ip alone"):
        quotas.set_quotas("anna", ip="10.0.0.1", connection_creation_rate=1)
    with pytest.raises(ConfigError, match="give one of --producer-byte-rate"):
        quotas.set_quotas("anna")
    with pytest.raises(ResourceNotFoundError, match="penstock quotas list"):
        quotas.remove("anna")
    with pytest.raises(InvalidRequestError):
        quotas.set_quotas("refused", producer_byte_rate=1)


def test_a_dry_run_changes_no_quota(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    quotas.set_quotas(user="anna", producer_byte_rate=5, dry_run=True)
    assert capsys.readouterr().out == "would have set the quotas of user 'anna'\n" and not admin.quotas
