"""Checks and performs the steps of a plan, in its order, many of one kind in one request where there is one for many.

It ends at the first step that is refused: what was done before stays, and a plan that is made anew goes on from there.
Not here: the plan (penstock/declared/plan.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from penstock.cli.security.users import checked_password, password_in
from penstock.declared.plan import (
    AclGone,
    ApplyPlan,
    ApplyStep,
    Change,
    ConfigChanges,
    Impossible,
    MorePartitions,
    NewAcl,
    Password,
    QuotaChanges,
    TopicGone,
    TopicMade,
    UserGone,
)
from penstock.declared.state import DeclaredKind
from penstock.errors import (
    ApiError,
    AuthorizationFailedError,
    BrokerIdNotRegisteredError,
    ConfigError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    PenstockError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages import topics
from penstock.messages.security.acls import AclBinding, AclFilter
from penstock.sasl.credentials import ITERATIONS_MIN

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import TopicDescription
    from penstock.client.admin.security.users import UserScramCredentialAlteration

AT_ONCE_MAX: Final = 500
"""Steps that one call does: the time limit of a call is for so many."""
_REFUSALS: Final = (
    AuthorizationFailedError,
    BrokerIdNotRegisteredError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)


@dataclass(slots=True)
class AppliedSteps:
    """The steps that were done, and those that failed, each with its error."""

    done: list[ApplyStep] = field(default_factory=list)
    failed: list[tuple[ApplyStep, PenstockError]] = field(default_factory=list)


def passwords_of(plan: ApplyPlan, file: str) -> dict[str, str]:
    """The password of each user that gets one; ConfigError if it is not where the file says. A relative path is beside
    the file."""
    found = {}
    for step in plan.steps:
        if isinstance(step.change, Password):
            user = step.change.user
            at = f"users.{user.name}"
            if user.password_file:
                path = os.path.join(os.path.dirname(file), user.password_file)
                found[user.name] = password_in(path, f"{at}.password-file:")
            elif (value := os.environ.get(user.password_env)) is None:
                raise ConfigError(f"{at}.password-env: {user.password_env} is not in the environment; export it")
            else:
                found[user.name] = checked_password(value, f"{at}.password-env: {user.password_env}")
    return found


def refused(admin: Admin, plan: ApplyPlan) -> list[Impossible]:
    """The steps that the controller would refuse, as far as it checks without a change: topics, partitions,
    configurations, quotas, and whether the caller may change users and ACLs. Where the plan changes configurations of
    brokers, nobody knows yet how many brokers take replicas: it may end a cordon, or set another default factor. Then a
    topic that has too few is refused in its turn."""
    created = [step for step in plan.steps if isinstance(step.change, TopicMade)]
    errors: list[tuple[ApplyStep, PenstockError]] = []
    for some in _chunks(created):
        answers = admin.create_topics(list(map(_new_topic, some)), validate_only=True)
        errors += [(step, error) for step in some if (error := answers[step.name])]
    errors += _refused_at_once(admin, [step for step in plan.steps if _is_of_topic(step)], _configured)
    errors += _refused_at_once(admin, [step for step in plan.steps if isinstance(step.change, QuotaChanges)], _quotas)
    errors += _refused_at_once(admin, [step for step in plan.steps if isinstance(step.change, MorePartitions)], _grown)
    for step in plan.steps:
        if isinstance(step.change, ConfigChanges) and not _is_of_topic(step):
            try:
                admin.alter_broker_config(step.change.broker_id, step.change.changes, validate_only=True)
            except _REFUSALS as error:
                errors.append((step, error))
    changes_brokers = any(isinstance(step.change, ConfigChanges) and step.change.topic is None for step in plan.steps)
    found = [
        Impossible(step.kind, step.name, str(error))
        for step, error in errors
        if not (changes_brokers and isinstance(error, InvalidReplicationFactorError))
    ]
    return [*found, *_forbidden(admin, plan)]


def _forbidden(admin: Admin, plan: ApplyPlan) -> list[Impossible]:
    """Users and ACLs, if the plan changes some and the caller may not."""
    kinds = {step.kind for step in plan.steps} & {DeclaredKind.USERS, DeclaredKind.ACLS}
    if kinds:
        try:
            admin.check_may_alter_cluster()
        except AuthorizationFailedError as error:
            return [Impossible(kind, "*", str(error)) for kind in sorted(kinds)]
    return []


def _refused_at_once(
    admin: Admin, steps: Sequence[ApplyStep], ask: Callable[..., Sequence[ApiError | None]]
) -> Iterator[tuple[ApplyStep, PenstockError]]:
    """The steps of one kind that the controller refuses when many are checked in one request."""
    for some in _chunks(steps):
        try:
            errors: Sequence[PenstockError | None] = ask(admin, some, validate_only=True)
        except _REFUSALS as error:
            errors = [error] * len(some)
        yield from ((step, error) for step, error in zip(some, errors, strict=True) if error is not None)


def perform(admin: Admin, plan: ApplyPlan, passwords: Mapping[str, str], tell: Callable[[int], None]) -> AppliedSteps:
    """Does the steps until one fails; `tell` hears how many were tried."""
    performed = AppliedSteps()
    for _, group in groupby(plan.steps, key=lambda step: (type(step.change), _is_of_topic(step))):
        for some in _chunks(list(group)):
            for step, error in zip(some, _results(admin, some, passwords), strict=False):
                if error is None:
                    performed.done.append(step)
                else:
                    performed.failed.append((step, error))
            tell(len(some))
            if performed.failed:
                return performed
    return performed


def _results(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[PenstockError | None]:
    """The result of each of these steps of one type, in their order. Steps behind the last one were not begun."""
    many = _configure_topics if _is_of_topic(steps[0]) else _MANY.get(type(steps[0].change))
    if many is not None:
        try:
            return list(many(admin, steps, passwords))
        except PenstockError as error:
            return [error]  # of the whole request; the next run finds what it has done all the same
    results: list[PenstockError | None] = []
    for step in steps:
        try:
            _do(admin, step.change)
            results.append(None)
        except PenstockError as error:
            return [*results, error]
    return results


def _do(admin: Admin, change: Change) -> None:
    match change:
        case ConfigChanges():
            admin.alter_broker_config(change.broker_id, change.changes)
        case _:
            raise TypeError(f"{change!r} is not done by itself")


def _is_of_topic(step: ApplyStep) -> bool:
    """True of a change of a topic's configuration."""
    return isinstance(step.change, ConfigChanges) and step.change.topic is not None


# -- many in one request -----------------------------------------------------------------------------------------------

_Many = Callable[["Admin", Sequence[ApplyStep], Mapping[str, str]], Iterable[PenstockError | None]]


def _create_topics(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    """A topic that is there as it was wanted is done: an attempt whose answer was lost has created it, for instance
    because the controller went."""
    wanted = {step.name: _new_topic(step) for step in steps}
    made = admin.create_topics(list(wanted.values()))
    if any(isinstance(error, TopicExistsError) for error in made.values()):
        for topic in admin.describe_topics():
            if (
                topic.name in wanted
                and isinstance(made[topic.name], TopicExistsError)
                and _is(wanted[topic.name], topic)
            ):
                made[topic.name] = None
    return [made[step.name] for step in steps]


def _is(wanted: topics.NewTopic, found: TopicDescription) -> bool:
    """True if the topic that was found can be the wanted one. Two numbers may be the cluster's defaults."""
    return (
        wanted.partitions in (topics.USE_DEFAULT, found.partition_count)
        and wanted.replication_factor in (topics.USE_DEFAULT, found.replication_factor)
        and dict(wanted.config) == dict(found.config)
    )


def _create_acls(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    acls = [step.change.acl for step in steps if isinstance(step.change, NewAcl)]
    made = admin.create_acls(acls)
    return [made[acl] for acl in acls]


def _delete_acls(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    admin.delete_acls([_exactly(step.change.acl) for step in steps if isinstance(step.change, AclGone)])
    return [None for _ in steps]


def _configure_topics(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    return _configured(admin, steps, validate_only=False)


def _configured(admin: Admin, steps: Sequence[ApplyStep], *, validate_only: bool) -> list[ApiError | None]:
    """Changes the configurations of topics. A broker that is away costs each request a moment, so there are few."""
    changes = [step.change for step in steps if isinstance(step.change, ConfigChanges)]
    wanted = {change.topic: change.changes for change in changes if change.topic is not None}
    made = admin.alter_topic_configs(wanted, validate_only=validate_only)
    return [made[topic] for topic in wanted]


def _add_partitions(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    return _grown(admin, steps, validate_only=False)


def _grown(admin: Admin, steps: Sequence[ApplyStep], *, validate_only: bool) -> list[ApiError | None]:
    wanted = {one.change.name: one.change.total for one in steps if isinstance(one.change, MorePartitions)}
    made = admin.create_partitions_of_topics(wanted, validate_only=validate_only)
    return [made[topic] for topic in wanted]


def _delete_topics(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    gone = [step.change.name for step in steps if isinstance(step.change, TopicGone)]
    made = admin.delete_topics(gone, missing_ok=True)
    return [made[topic] for topic in gone]


def _change_quotas(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    return _quotas(admin, steps, validate_only=False)


def _quotas(admin: Admin, steps: Sequence[ApplyStep], *, validate_only: bool) -> list[ApiError | None]:
    changes = [step.change for step in steps if isinstance(step.change, QuotaChanges)]
    made = admin.alter_client_quotas({one.entity: one.changes for one in changes}, validate_only=validate_only)
    return [made[change.entity] for change in changes]


def _change_users(admin: Admin, steps: Sequence[ApplyStep], passwords: Mapping[str, str]) -> list[ApiError | None]:
    made = admin.alter_user_scram_credentials([one for step in steps for one in _of_user(step.change, passwords)])
    return [made[step.name] for step in steps]


_MANY: Final[Mapping[type, _Many]] = {
    TopicMade: _create_topics,
    MorePartitions: _add_partitions,
    TopicGone: _delete_topics,
    NewAcl: _create_acls,
    AclGone: _delete_acls,
    QuotaChanges: _change_quotas,
    Password: _change_users,
    UserGone: _change_users,
}


def _new_topic(step: ApplyStep) -> topics.NewTopic:
    if not isinstance(step.change, TopicMade):
        raise TypeError(f"{step} creates no topic")
    wanted = step.change.topic
    partitions, factor = wanted.partitions or topics.USE_DEFAULT, wanted.replication_factor or topics.USE_DEFAULT
    return topics.NewTopic(wanted.name, partitions, factor, dict(wanted.config))


def _of_user(change: Change, passwords: Mapping[str, str]) -> Iterator[UserScramCredentialAlteration]:
    from penstock.client.admin.admin_types import UserScramCredentialDeletion, UserScramCredentialUpsertion

    if isinstance(change, Password):
        user = change.user
        iterations = user.iterations or ITERATIONS_MIN
        for one in change.mechanisms:
            yield UserScramCredentialUpsertion(user.name, passwords[user.name], one, iterations)
    elif isinstance(change, UserGone):
        for one in change.mechanisms:
            yield UserScramCredentialDeletion(change.name, one)


def _exactly(acl: AclBinding) -> AclFilter:
    return AclFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _chunks(steps: Sequence[ApplyStep]) -> Iterator[Sequence[ApplyStep]]:
    return (steps[at : at + AT_ONCE_MAX] for at in range(0, len(steps), AT_ONCE_MAX))
