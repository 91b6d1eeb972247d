"""Decides on a change of the configuration of one broker, or of all brokers (KIP-226).

A value for all brokers of `min.insync.replicas` or `unclean.leader.election.enable` counts for each topic without its
own, and so changes partitions in the same batch as that topic's own would (topic_configs.py). No file of a node is
known here, so a list that is not set here begins with the key's default when items are added or taken out, as in Kafka.
A broker that is not registered gets no configuration; what is left of one can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metadata.broker_config import VALUE_CHARACTERS_MAX, broker_id_of
from metadata.controller.configuration.changes import SHOWN_CHARACTERS, altered_texts, config_records
from metadata.controller.configuration.topic_configs import emptied_elrs, unclean_elections
from metadata.controller.context import DecisionContext, effective_min_isr
from metadata.cordon import CORDONED_LOG_DIRS, forgotten_cordon_record
from metadata.records import ALL_BROKERS, BROKER_RESOURCE, Record
from metadata.registrations import PartitionRegistration
from metadata.topic_config import UNCLEAN_LEADER_ELECTION, effective_value
from penstock.config_keys import ConfigKey, ConfigValue
from penstock.errors import BrokerIdNotRegisteredError, InvalidConfigError, InvalidRequestError
from penstock.messages.configs import AlterConfigsResource, ConfigOperation


def broker_records(context: DecisionContext, resource: AlterConfigsResource) -> list[Record]:
    _check_name(context, resource)
    name, known = resource.resource_name, context.config.broker_configs
    before = context.state.broker_config(name)

    def definition_of(key: str) -> ConfigKey:
        return known.definition(key, name)

    def present(key: str) -> ConfigValue:
        definition = definition_of(key)
        return definition.parse(before[key]) if key in before else definition.default

    after = altered_texts(before, resource.changes, definition_of, present)
    for key in {change.key for change in resource.changes} & after.keys():
        if len(after[key]) > VALUE_CHARACTERS_MAX:
            raise InvalidConfigError(
                f"the value of {key[:SHOWN_CHARACTERS]} has {len(after[key])} characters; {VALUE_CHARACTERS_MAX} are"
                " allowed"
            )
        definition_of(key).parse(after[key])
    _check_together(context, resource, after)
    records: list[Record] = [
        *config_records(BROKER_RESOURCE, name, before, after),
        *_uncordoned(context, name, before, after),
    ]
    return records if name != ALL_BROKERS else _with_partitions(context, records, after)


def _uncordoned(
    context: DecisionContext, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[Record]:
    """Forgets what brokers that are away told of their cordoned log dirs, when their configuration names them no
    longer: else they would stay cordoned until they are back. Those in service tell anew with their next heartbeat."""
    if CORDONED_LOG_DIRS not in before or CORDONED_LOG_DIRS in after:
        return []
    state = context.state
    concerned = [broker_id for broker_id in sorted(state.brokers) if name in (ALL_BROKERS, str(broker_id))]
    away = (broker_id for broker_id in concerned if not state.is_active(broker_id))
    return [record for broker_id in away for record in forgotten_cordon_record(broker_id, state.configs)]


def _check_name(context: DecisionContext, resource: AlterConfigsResource) -> None:
    name = resource.resource_name
    if name == ALL_BROKERS:
        return
    broker_id = broker_id_of(name)
    if broker_id is None:
        raise InvalidRequestError(
            f"{name[:SHOWN_CHARACTERS]!r} is not a broker id; give a number like '1', or '' for all brokers"
        )
    deletes_only = all(change.operation == ConfigOperation.DELETE for change in resource.changes)
    is_left = deletes_only and bool(context.state.broker_config(name))
    if context.state.find_broker(broker_id) is None and not is_left:
        raise BrokerIdNotRegisteredError(
            f"broker {broker_id} is not registered; `penstock cluster describe` shows the brokers that are"
        )


def _check_together(context: DecisionContext, resource: AlterConfigsResource, after: Mapping[str, str]) -> None:
    """The values that each broker would have then: its own over those for all."""
    state, known, name = context.state, context.config.broker_configs, resource.resource_name
    changed = {change.key for change in resource.changes}
    if name != ALL_BROKERS:
        for_all = known.typed(state.broker_config(ALL_BROKERS), ALL_BROKERS)
        known.check({**for_all, **known.typed(after, name)}, changed)
        return
    for_all = known.typed(after, ALL_BROKERS)
    known.check(for_all, changed)
    for one in map(str, state.brokers):
        own = state.broker_config(one)
        if own:
            known.check({**for_all, **known.typed(own, one)}, changed)


def _with_partitions(context: DecisionContext, records: list[Record], after: Mapping[str, str]) -> list[Record]:
    """The records with the changes of partitions that follow; a partition of a topic with its own value stays."""
    state, defaults = context.state, context.cluster.topic_defaults_with(after)
    if defaults == context.topic_defaults:
        return records

    def overrides(partition: PartitionRegistration) -> Mapping[str, str]:
        return state.topic_config(state.topics[partition.topic_id].name)

    def min_isr(partition: PartitionRegistration) -> int:
        return effective_min_isr(partition, overrides(partition), defaults)

    def may_be_unclean(partitions: Iterable[PartitionRegistration]) -> Iterable[PartitionRegistration]:
        return (p for p in partitions if effective_value(UNCLEAN_LEADER_ELECTION, overrides(p), defaults))

    elections = unclean_elections(context, may_be_unclean(state.leaderless_partitions()), min_isr)
    return [*emptied_elrs(state.partitions_with_elr(), min_isr), *records, *elections]
