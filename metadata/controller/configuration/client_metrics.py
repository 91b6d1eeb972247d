"""Decides on a change of a subscription to the metrics of clients (KIP-714). Not here: what its keys mean."""

from __future__ import annotations

from metadata.broker_config import VALUE_CHARACTERS_MAX
from metadata.client_metrics import (
    NAME_CHARACTERS_MAX,
    SUBSCRIPTIONS_MAX,
    client_metrics_definition,
    client_metrics_value,
)
from metadata.controller.configuration.changes import SHOWN_CHARACTERS, altered_texts, config_records
from metadata.controller.context import DecisionContext
from metadata.records import CLIENT_METRICS_RESOURCE, Record
from penstock.config_keys import ConfigValue
from penstock.errors import InvalidConfigError, InvalidRequestError, PolicyViolationError
from penstock.messages.configs import AlterConfigsResource


def client_metrics_records(context: DecisionContext, resource: AlterConfigsResource) -> list[Record]:
    name, state = resource.resource_name, context.state
    if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise InvalidRequestError(
            f"{name[:SHOWN_CHARACTERS]!r} cannot name a subscription to client metrics: give 1 to {NAME_CHARACTERS_MAX}"
            " printable characters"
        )
    before = state.client_metrics_config(name)

    def present(key: str) -> ConfigValue:
        definition = client_metrics_definition(key)
        return definition.parse(before[key]) if key in before else definition.default

    after = altered_texts(before, resource.changes, client_metrics_definition, present)
    for key in {change.key for change in resource.changes} & after.keys():
        if len(after[key]) > VALUE_CHARACTERS_MAX:
            raise InvalidConfigError(
                f"the value of {key[:SHOWN_CHARACTERS]} has {len(after[key])} characters; {VALUE_CHARACTERS_MAX} are"
                " allowed"
            )
        client_metrics_value(key, after[key])
    if not before and after:
        others = sum(one.resource_type == CLIENT_METRICS_RESOURCE for one in state.configs)
        if others >= SUBSCRIPTIONS_MAX:
            raise PolicyViolationError(
                f"there are {others} subscriptions to client metrics, and {SUBSCRIPTIONS_MAX} are allowed; delete the"
                " keys of one that nobody needs"
            )
    return [*config_records(CLIENT_METRICS_RESOURCE, name, before, after)]
