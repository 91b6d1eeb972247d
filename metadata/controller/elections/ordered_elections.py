"""Decides on the elections that an operator orders: the preferred leader, or an unclean one (ElectLeaders, KIP-460).

An unclean election is made only where there is no leader, whatever the topic's `unclean.leader.election.enable`: the
order is the permission. The candidates are those of election.py, so a clean one comes first there too. Not here:
elections that follow from brokers that come and go (broker_elections.py), and those by schedule (leader_balance.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from metadata.controller.context import DecisionContext, named_partition
from metadata.controller.elections.election import Circumstances, change_record, elect
from metadata.controller.elections.preferred_election import preferred_elected, preferred_obstacle
from metadata.controller.result import ControllerResult
from metadata.records import PartitionChangeRecord, Record
from metadata.registrations import PartitionKey, PartitionRegistration
from penstock.errors import (
    ApiError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    PolicyViolationError,
    PreferredLeaderNotAvailableError,
)
from penstock.messages.elections import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResult,
    NamedPartitions,
)
from penstock.types import NO_LEADER


def elect_leaders(context: DecisionContext, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
    """Each partition on its own; one that is named twice is refused the second time."""
    if request.election_type not in tuple(ElectionType):
        raise InvalidRequestError(f"election type {request.election_type} is not known; it must be 0 or 1")
    election_type = ElectionType(request.election_type)
    records: list[Record] = []
    results: list[ElectLeadersResult] = []
    seen: set[PartitionKey] = set()
    for asked in _asked(context, request):
        try:
            topic = context.named_topic(asked.topic)
        except ApiError as error:
            results += (ElectLeadersResult(asked.topic, number, error) for number in asked.partitions or (-1,))
            continue
        for number in asked.partitions or sorted(topic.partitions):
            try:
                partition = named_partition(topic, number, seen)
                change = _change(context, topic.name, partition, election_type)
            except ElectionNotNeededError as error:
                if asked.partitions:
                    results.append(ElectLeadersResult(topic.name, number, error, topic.partitions[number].leader_id))
                continue
            except ApiError as error:
                known = topic.partitions.get(number)
                results.append(ElectLeadersResult(topic.name, number, error, known.leader_id if known else NO_LEADER))
                continue
            records.append(change)
            results.append(ElectLeadersResult(topic.name, number, None, partition.merge(change).leader_id))
    if len(records) > context.config.max_records_per_decision:
        raise PolicyViolationError(
            f"{len(records)} leaders would be elected, at most {context.config.max_records_per_decision} may be in one"
            " request; name fewer topics"
        )
    return ControllerResult(tuple(records), ElectLeadersResponse(tuple(results)))


def _asked(context: DecisionContext, request: ElectLeadersRequest) -> Iterator[NamedPartitions]:
    if request.topics is None:
        yield from (NamedPartitions(name) for name in sorted(topic.name for topic in context.state.topics.values()))
        return
    named = sum(max(1, len(asked.partitions)) for asked in request.topics)
    context.check_item_count(named, "partitions")
    yield from request.topics


def _change(
    context: DecisionContext, topic: str, partition: PartitionRegistration, election_type: ElectionType
) -> PartitionChangeRecord:
    """The record of the election. Raises an error that says why no election is made."""
    if election_type is ElectionType.PREFERRED:
        return _preferred(context, topic, partition)
    return _unclean(context, topic, partition)


def _preferred(context: DecisionContext, topic: str, partition: PartitionRegistration) -> PartitionChangeRecord:
    preferred, name = partition.replicas[0], f"{topic}-{partition.partition}"
    if partition.leader_id == preferred:
        raise ElectionNotNeededError(f"{name} is led by its preferred leader {preferred} already")
    if obstacle := preferred_obstacle(context, partition):
        raise PreferredLeaderNotAvailableError(f"{name}: {obstacle}")
    return preferred_elected(context, partition)


def _unclean(context: DecisionContext, topic: str, partition: PartitionRegistration) -> PartitionChangeRecord:
    name = f"{topic}-{partition.partition}"
    if partition.has_leader:
        raise ElectionNotNeededError(f"{name} is led by broker {partition.leader_id}")
    state = context.state
    min_isr = context.min_isr(partition)
    circumstances = Circumstances(
        state.is_active, state.is_unfenced, state.replica_is_online, min_isr, unclean_allowed=True, is_ordered=True
    )
    outcome = elect(partition, circumstances)
    change = change_record(partition, outcome) if outcome.leader_id != NO_LEADER else None
    if change is None:
        raise EligibleLeadersNotAvailableError(
            f"{name}: none of its replicas {list(partition.replicas)} is in service, with a log dir that works; start"
            " one of these brokers"
        )
    return change
