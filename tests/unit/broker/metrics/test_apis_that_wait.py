"""Requests that wait are counted for every API whose requests can: by the table, so that no row is forgotten."""

from __future__ import annotations

from broker.metrics.listener_readings import APIS_THAT_WAIT
from penstock.messages.admin_apis import DESCRIBE_CONFIGS
from penstock.messages.apis import APIS
from penstock.messages.client_apis import METADATA


def test_whatever_waits_for_the_controller_is_counted() -> None:
    at_controller = [api.name for api in APIS.values() if api.kind.at_broker and api.kind.at_controller]
    assert "UnregisterBroker" in at_controller and set(at_controller) <= set(APIS_THAT_WAIT)


def test_fetches_are_counted_by_who_asks_and_what_is_answered_at_once_is_not() -> None:
    assert {"Produce", "FetchConsumer", "FetchFollower", "ListOffsets"} <= set(APIS_THAT_WAIT)
    assert not {"Fetch", METADATA.name, DESCRIBE_CONFIGS.name} & set(APIS_THAT_WAIT)
    assert len(set(APIS_THAT_WAIT)) == len(APIS_THAT_WAIT)
