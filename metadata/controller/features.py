"""Decides on changes of feature levels, and whether a broker may join at the levels that there are (KIP-584, KIP-778).

A level is raised where every voter, every registered broker, and every other node that fetches the metadata has said of
late that it knows it: who is away, or has said nothing, may be too old, and would stop at the record. A level is
lowered where no record would be lost, and where no node has said that it gave the lower level up. From
`metadata.version` 2 to 1 each level is lost that is not the one of release 0.2.0: an unsafe downgrade gives it up. All
updates of a request are made, or none is. Raised is metadata.version first, and lowered last, so that each record is
written at a level that has it.

Not here: what the nodes have said (broker/quorum/features/node_features.py), and `kraft.version`, which comes with the
voters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.features import (
    FIRST_RELEASE,
    KRAFT_VERSION,
    LEVEL_MAX,
    LEVELS_ARE_RECORDS,
    METADATA_VERSION,
    NAME_LENGTH_MAX,
    FeatureTable,
    lack_of,
    ranges_of,
    release_words,
)
from metadata.records import FeatureLevelRecord, Record
from metadata.registrations import BrokerRegistration
from penstock.errors import (
    ApiError,
    InvalidRegistrationError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    InvariantViolation,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.features import (
    FeatureHindrance,
    FeatureUpdate,
    FeatureUpdateResult,
    FeatureUpgradeType,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.messages.nodes.brokers import RegisterBrokerRequest

_NAMED_MAX: Final = 10
"""So many nodes an error names."""


@dataclass(frozen=True, slots=True)
class HeardNode:
    """A node of the quorum as its leader knows it."""

    node_id: int
    is_voter: bool
    is_heard: bool
    """It has fetched of late, so that it runs the release that has said `supports`."""
    supports: str = ""
    last_heard_ms_ago: int = -1


def update_features(
    context: DecisionContext, request: UpdateFeaturesRequest, nodes: Sequence[HeardNode]
) -> ControllerResult[UpdateFeaturesResponse]:
    """`nodes`: all voters, and all others that have fetched."""
    updates = request.updates
    context.check_item_count(len(updates), "features")
    names = [update.name for update in updates]
    if len(set(names)) < len(names):
        raise InvalidRequestError("a feature is named twice in the request")
    table, state = context.config.features, context.state
    before = table.levels(state.levels)
    after = {**before, **{update.name: update.level for update in updates if update.name in table.features}}
    hindrances: list[FeatureHindrance] = []
    results = []
    for update in updates:
        error = _refusal(table, before, after, update)
        if error is None and update.level != before[update.name]:
            is_raise = update.level > before[update.name]
            judge = hindered if is_raise else _left_behind
            error, found = judge(table, state.brokers, nodes, update)
            hindrances += found
        results.append(FeatureUpdateResult(update.name[:NAME_LENGTH_MAX], before.get(update.name, 0), error))
    first = next((result.error for result in results if result.error is not None), None)
    lost = tuple(_lost(context, before, after))
    if first is not None:
        return ControllerResult((), _refused(first, results, hindrances, lost))
    records = () if request.validate_only else tuple(_records(table, before, after))
    return ControllerResult(records, UpdateFeaturesResponse(results=tuple(results), lost=lost))


def first_levels(
    context: DecisionContext, wanted: Mapping[str, int], nodes: Sequence[HeardNode]
) -> ControllerResult[tuple[str, ...]]:
    """The records of the levels with which a new cluster begins; none where it has begun, and has any metadata but
    voters. The response is lines for the node's log. A voter that has not been heard yet was formatted for the same
    cluster; one that was heard, and is too old, keeps the cluster at the levels of release 0.2.0."""
    state, table = context.state, context.config.features
    before = table.levels(state.levels)
    if _has_begun(context) or wanted.get(METADATA_VERSION, before[METADATA_VERSION]) < LEVELS_ARE_RECORDS:
        return ControllerResult((), ())
    after = {**before, **wanted}
    updates = [FeatureUpdate(name, level) for name, level in sorted(after.items()) if level != before[name]]
    unknown = [one for one in updates if table.lack(one.name, one.level)]
    if unknown:
        return ControllerResult((), (f"{unknown[0].name} stays {before[unknown[0].name]}: this node is too old",))
    heard = [node for node in nodes if node.last_heard_ms_ago >= 0]
    hindrances = [found for update in updates for found in _too_old(table, heard, update)]
    if hindrances:
        line = f"the feature levels stay those of release {FIRST_RELEASE}: {hindrances[0].reason}"
        return ControllerResult((), (f"{line}; then raise them with `penstock features upgrade`",))
    shown = ", ".join(f"{update.name} {update.level}" for update in updates)
    return ControllerResult(tuple(_records(table, before, after)), (f"the cluster begins with {shown}",))


def _has_begun(context: DecisionContext) -> bool:
    state = context.state
    tables = state.brokers, state.topics, state.configs, state.levels, state.acls.by_id, state.scram.secret
    return any(map(bool, tables)) or bool(state.next_producer_id or state.quotas.by_entity)


def check_levels_of(context: DecisionContext, request: RegisterBrokerRequest) -> None:
    """InvalidRegistrationError for a broker that does not support a finalized level: it would stop at its record."""
    try:
        ranges = ranges_of(request.features)
    except ValueError as error:
        raise InvalidRequestError(f"broker {request.broker_id}: {error}") from error
    why = context.config.features.unfit(context.state.levels, ranges)
    if why:
        raise InvalidRegistrationError(f"broker {request.broker_id} cannot join: {why}")


def check_is_readable(records: Iterable[Record], table: FeatureTable, level: int) -> None:
    """InvariantViolation for a record that a node at this `metadata.version` may not be able to read. A raise counts
    from its own record on."""
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            level = max(level, record.level)
        needed = _needed_level(record, table)
        if level < needed:
            raise InvariantViolation(
                f"{record} must not be written at {METADATA_VERSION} {level}: {needed} is the first with it"
            )


def _needed_level(record: Record, table: FeatureTable) -> int:
    """The first `metadata.version` with this record and all that its fields say."""
    name = type(record).__name__.removesuffix("Record")
    said = [level for field, level in table.field_levels.get(name, ()) if getattr(record, field)]
    return max(table.record_levels.get(name, 0), *said, 0)


def _refusal(
    table: FeatureTable, before: Mapping[str, int], after: Mapping[str, int], update: FeatureUpdate
) -> ApiError | None:
    """The fault in an update that is the same whatever the nodes say."""
    name, level = update.name, update.level
    if name not in table.features or name == KRAFT_VERSION:
        return InvalidUpdateVersionError(
            f"{name[:NAME_LENGTH_MAX]!r} is no feature that can be given a level here; `penstock features describe`"
            " names those that there are"
        )
    lack = table.lack(name, level)
    if lack or level > LEVEL_MAX:
        return InvalidUpdateVersionError(f"{name} cannot be {level}: the active controller does not know it, {lack}")
    if level < before[name] and update.upgrade_type is FeatureUpgradeType.UPGRADE:
        return InvalidUpdateVersionError(
            f"{name} is {before[name]}, and {level} is lower: ask for a downgrade (`penstock features downgrade`)"
        )
    if level > before[name] and update.upgrade_type is not FeatureUpgradeType.UPGRADE:
        return InvalidUpdateVersionError(
            f"{name} is {before[name]}, and {level} is higher: ask for an upgrade (`penstock features upgrade`)"
        )
    if after[METADATA_VERSION] >= LEVELS_ARE_RECORDS:
        return None
    if name == METADATA_VERSION:
        return _loss(table, after, update)
    if level == table.without_record(name):
        return None
    return InvalidUpdateVersionError(
        f"{name} can be changed from {METADATA_VERSION} {LEVELS_ARE_RECORDS} on, which is {after[METADATA_VERSION]};"
        " raise that in the same request, or before"
    )


def _loss(table: FeatureTable, after: Mapping[str, int], update: FeatureUpdate) -> ApiError | None:
    """Refuses a safe downgrade of metadata.version by which levels would be lost."""
    given_up = {
        name: level for name, level in after.items() if name != METADATA_VERSION and level != table.without_record(name)
    }
    if not given_up or update.upgrade_type is not FeatureUpgradeType.SAFE_DOWNGRADE:
        return None
    shown = ", ".join(f"{name} {level}" for name, level in given_up.items())
    wanted = ", ".join(f"{name}={table.without_record(name)}" for name in given_up)
    return InvalidUpdateVersionError(
        f"{METADATA_VERSION} {update.level} has no record of {shown}, which would be lost: change that before"
        f" ({wanted}), or say that the downgrade is unsafe"
    )


def hindered(
    table: FeatureTable,
    brokers: Mapping[int, BrokerRegistration],
    nodes: Sequence[HeardNode],
    update: FeatureUpdate,
) -> tuple[ApiError | None, tuple[FeatureHindrance, ...]]:
    """The refusal of a raise that some node hinders, and these nodes. `brokers` are registered."""
    return _refused_for(update, tuple(_hindrances(table, brokers.keys(), nodes, update)))


def _left_behind(
    table: FeatureTable,
    brokers: Mapping[int, BrokerRegistration],
    nodes: Sequence[HeardNode],
    update: FeatureUpdate,
) -> tuple[ApiError | None, tuple[FeatureHindrance, ...]]:
    """The refusal of a lowering to a level that some node has given up, and these nodes: each by its last word, its own
    fetch or, of a broker that is away, its registration. A node that has said nothing supports it."""
    said = {broker_id: broker.features for broker_id, broker in brokers.items() if broker.features}
    said |= {node.node_id: node.supports for node in nodes if node.is_heard}
    found = []
    for node_id, supports in sorted(said.items()):
        lack = _lack_of(HeardNode(node_id, False, True, supports), update)
        if lack:
            reason = f"node {node_id} is too new, {lack}: install a release there that still knows {update.level}"
            found.append(FeatureHindrance(node_id, update.name, reason))
    return _refused_for(update, tuple(found))


def _refused_for(
    update: FeatureUpdate, found: tuple[FeatureHindrance, ...]
) -> tuple[ApiError | None, tuple[FeatureHindrance, ...]]:
    if not found:
        return None, ()
    more = f"; and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    shown = "; ".join(one.reason for one in found[:_NAMED_MAX])
    return InvalidUpdateVersionError(f"{update.name} cannot be {update.level} yet: {shown}{more}"), found


def _hindrances(
    table: FeatureTable, broker_ids: Set[int], nodes: Sequence[HeardNode], update: FeatureUpdate
) -> Iterator[FeatureHindrance]:
    """The nodes that are not known to know the level."""
    voters = {node.node_id for node in nodes if node.is_voter}
    heard = [node for node in nodes if node.is_heard]
    deaf = {node.node_id for node in nodes if node.is_voter and not node.is_heard}
    deaf |= (voters | broker_ids) - {node.node_id for node in heard}
    for node_id in sorted(deaf):
        remedies = ["start it (if it runs, its log says what it waits for, such as room on its disk)"]
        if node_id in broker_ids:
            remedies.append(f"forget it if it is gone for good (`penstock brokers unregister {node_id}`)")
        if node_id in voters:
            remedies.append(
                "remove it from the voters of a dynamic quorum if it is gone for good (`penstock quorum remove-voter`)"
            )
        yield FeatureHindrance(
            node_id, update.name, f"node {node_id} is away, and may be too old: {', or '.join(remedies)}"
        )
    yield from _too_old(table, [node for node in heard if node.node_id not in deaf], update)


def _too_old(table: FeatureTable, heard: Iterable[HeardNode], update: FeatureUpdate) -> Iterator[FeatureHindrance]:
    """Names the nodes that have said what they support, and do not support the level."""
    since = table.since(update.name, update.level)
    for node in sorted(heard, key=lambda node: node.node_id):
        lack = _lack_of(node, update)
        if lack:
            yield FeatureHindrance(
                node.node_id,
                update.name,
                f"node {node.node_id} is too old, {lack}: install {release_words(since)} there",
            )


def _lack_of(node: HeardNode, update: FeatureUpdate) -> str:
    try:
        return lack_of(ranges_of(node.supports), update.name, update.level)
    except ValueError:
        return "it says nothing that can be read"


def _lost(context: DecisionContext, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    """The content that a lowering takes out of the metadata, in words."""
    if not after[METADATA_VERSION] < LEVELS_ARE_RECORDS <= before[METADATA_VERSION]:
        return
    saying = sorted(broker.broker_id for broker in context.state.brokers.values() if broker.features)
    if saying:
        shown = ", ".join(map(str, saying[:_NAMED_MAX])) + (", …" if len(saying) > _NAMED_MAX else "")
        yield f"what the registrations of brokers {shown} say of levels; each says it again when it registers"
    for name, level in after.items():
        kept = context.config.features.without_record(name)
        if name != METADATA_VERSION and level != kept:
            yield f"{name} {level}: without a record it is {kept}"


def _records(table: FeatureTable, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Record]:
    """The records of the difference, each at a level that has it."""
    if after[METADATA_VERSION] < LEVELS_ARE_RECORDS:
        if before[METADATA_VERSION] >= LEVELS_ARE_RECORDS:
            yield _record(table, METADATA_VERSION, after[METADATA_VERSION])  # it ends all others
        return
    changed = [name for name, level in after.items() if level != before[name]]
    is_raised = after[METADATA_VERSION] > before[METADATA_VERSION]
    for name in sorted(changed, key=lambda name: (name != METADATA_VERSION) == is_raised):
        yield _record(table, name, after[name])


def _record(table: FeatureTable, name: str, level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name, level, table.since(name, level))


def _refused(
    first: ApiError,
    results: Sequence[FeatureUpdateResult],
    hindrances: Sequence[FeatureHindrance],
    lost: tuple[str, ...],
) -> UpdateFeaturesResponse:
    """The answer that nothing was changed. Updates that could have been made say so."""
    beside = InvalidUpdateVersionError("it was not changed, because another update of the request is refused")
    answered = tuple(FeatureUpdateResult(one.name, one.level, one.error or beside) for one in results)
    return UpdateFeaturesResponse(first, answered, tuple(hindrances), lost)
