"""Describes and changes the configurations of topics and brokers (KIP-226, KIP-339).

A topic's configuration and that of all brokers are asked of any broker, a broker's own of that broker. A change goes to
any broker, which forwards it to the controller, and is over when every broker in service has it: a record that is
produced after that meets the changed log. Not here: which keys there are and what they mean; brokers know that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.client.admin.changes import change
from penstock.client.admin.portions import portions
from penstock.client.cluster.arguments import MAX_INT32, checked_mapping, checked_number
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_question import METADATA_ATTEMPT_MS
from penstock.client.wire.connection import Connection
from penstock.config_keys import config_text
from penstock.errors import (
    ApiError,
    AuthorizationFailedError,
    BootstrapError,
    BrokerIdNotRegisteredError,
    ReplicaNotAvailableError,
    TimedOutError,
    UnknownServerError,
)
from penstock.messages.admin_apis import DESCRIBE_CONFIGS
from penstock.messages.api import Outcome
from penstock.messages.client_apis import ALTER_CONFIGS
from penstock.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.types import Endpoint

T = TypeVar("T", bound=Outcome)

IN_VAIN_MS = 10_000
"""A wait for brokers ends after this time if no broker has ever answered at any of their addresses."""
VISIBLE_POLL_MS = 20
"""How often brokers are asked whether they have heard of a change; it takes a few milliseconds on a healthy cluster."""


def config_changes(
    values: Mapping[str, Any], append: Mapping[str, Any] | None, subtract: Mapping[str, Any] | None
) -> tuple[ConfigChange, ...]:
    """Each key set, or returned to its default where the value is None; lists with items added and taken out."""
    changes = [
        ConfigChange(key, ConfigOperation.DELETE)
        if value is None
        else ConfigChange(key, ConfigOperation.SET, config_text(value))
        for key, value in values.items()
    ]
    changes += [ConfigChange(k, ConfigOperation.APPEND, config_text(v)) for k, v in (append or {}).items()]
    changes += [ConfigChange(k, ConfigOperation.SUBTRACT, config_text(v)) for k, v in (subtract or {}).items()]
    return tuple(changes)


async def describe_topic(cluster: ClusterClient, name: str, deadline_ms: int) -> dict[str, ConfigEntry]:
    """Every effective key of a topic."""
    return await describe_by_any(cluster, topic_resource(name), deadline_ms)


def checked_changes(
    example: str, values: Mapping[str, Any], append: Mapping[str, Any] | None, subtract: Mapping[str, Any] | None
) -> tuple[ConfigChange, ...]:
    """The changes that a user gave; TypeError if they are no mapping."""
    for argument, given in (("changes", values), ("append", append), ("subtract", subtract)):
        checked_mapping(argument, given, example)
    return config_changes(values, append, subtract)


async def describe_by_any(cluster: ClusterClient, resource: ConfigResource, deadline_ms: int) -> dict[str, ConfigEntry]:
    """The description by a broker that knows no less of the metadata than was seen here before."""
    await cluster.refresh(deadline_ms=deadline_ms)

    async def ask(connection: Connection, timeout_ms: int) -> DescribeConfigsResponse:
        answer = await connection.call(DESCRIBE_CONFIGS, _of(resource), timeout_ms)
        _raise_refusal(answer)  # BEFORE the offset: older brokers refuse without one
        if answer.metadata_offset < cluster.cache.metadata_offset:
            raise ReplicaNotAvailableError(
                f"{connection.endpoint} has the metadata up to offset {answer.metadata_offset},"
                f" and {cluster.cache.metadata_offset} was seen before"
            )
        return answer

    answer = await cluster.any_node.ask(ask, deadline_ms, read_only=True)
    return {entry.name: entry for entry in _only(answer.resources).configs}


async def describe_broker(cluster: ClusterClient, resource: ConfigResource, deadline_ms: int) -> dict[str, ConfigEntry]:
    """Every key of a broker, told by the broker itself; what the metadata has for all brokers is told by any."""
    if not resource.resource_name:
        return await describe_by_any(cluster, resource, deadline_ms)
    node_id = int(resource.resource_name)
    connection = cluster.connection(node_id)
    if connection is None:
        await cluster.refresh(deadline_ms=deadline_ms)
        connection = cluster.connection(node_id)
    if connection is None:
        raise BrokerIdNotRegisteredError(
            f"broker {node_id} is not in service; `penstock cluster describe` shows the brokers in service"
        )
    left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
    timeout_ms = min(left_ms, cluster.config.request_timeout_ms)
    answer = await connection.call(DESCRIBE_CONFIGS, _of(resource), timeout_ms)
    return {entry.name: entry for entry in _only(answer.resources).configs}


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource("topic", name)


def broker_resource(node_id: int | None) -> ConfigResource:
    """One broker, or with None all of them; TypeError or ValueError if it is neither."""
    if node_id is not None:
        checked_number("node_id", node_id, 0, MAX_INT32)
    return ConfigResource("broker", "" if node_id is None else str(node_id))


async def alter(
    cluster: ClusterClient,
    resource: ConfigResource,
    changes: Sequence[ConfigChange],
    deadline_ms: int,
    *,
    validate_only: bool,
) -> None:
    """Every change or, with an error, none."""
    request = AlterConfigsRequest((AlterConfigsResource(*resource, tuple(changes)),), validate_only)
    answer = await change(cluster, ALTER_CONFIGS, request, deadline_ms)
    _only(answer.resources)
    if not validate_only:
        await wait_heard(cluster, answer.metadata_offset, deadline_ms)


async def alter_topics(
    cluster: ClusterClient, changes: Mapping[str, tuple[ConfigChange, ...]], deadline_ms: int, *, validate_only: bool
) -> dict[str, ApiError | None]:
    """The result for each topic by its name, in requests that the controller decides quickly. Returns when every broker
    in service has heard of those that were changed."""
    found: dict[str, ApiError | None] = {}
    offset = -1
    resources = (AlterConfigsResource(*topic_resource(name), some) for name, some in changes.items())
    for some in portions(resources, lambda one: len(one.changes)):
        request = AlterConfigsRequest(tuple(some), validate_only)
        answer = await change(cluster, ALTER_CONFIGS, request, deadline_ms)
        found |= {one.resource_name: one.error for one in answer.resources}
        offset = max(offset, answer.metadata_offset)
    if not validate_only and None in found.values():
        await wait_heard(cluster, offset, deadline_ms)
    return found


def _raise_refusal(answer: DescribeConfigsResponse) -> None:
    """Raises the error of a right that is missing: another broker would say the same."""
    for one in answer.resources:
        if isinstance(one.error, AuthorizationFailedError):
            raise one.error


def _of(resource: ConfigResource) -> DescribeConfigsRequest:
    """The question for all keys of one resource."""
    return DescribeConfigsRequest((DescribeConfigsResource(*resource),))


def _only(results: Sequence[T]) -> T:
    """The only result of a request for one resource; its error is raised."""
    if len(results) != 1:
        raise UnknownServerError(f"the answer has {len(results)} results for one resource")
    error = results[0].error
    if error is not None:
        raise error
    return results[0]


@contextmanager
def done_but(done: str) -> Iterator[None]:
    """Guards a question after a change: TimedOutError says that the change was made, in place of an error that does
    not."""
    try:
        yield
    except (ApiError, TimedOutError, BootstrapError) as error:
        raise TimedOutError(f"{done}, but no broker tells whether all have heard of it: {error}") from error


def is_in_vain(cluster: ClusterClient, in_vain_ms: int) -> bool:
    """True if waiting for the brokers is in vain, since that time: the addresses that they advertise are of another
    place."""
    return cluster.clock.now_ms() >= in_vain_ms and cluster.connections.are_foreign()


def unreachable(cluster: ClusterClient) -> str:
    """The brokers that do not answer, with their addresses."""
    return "; ".join(cluster.connections.unreachable()) or "none is in service"


async def wait_heard(cluster: ClusterClient, metadata_offset: int, deadline_ms: int) -> None:
    """Waits until at least one broker has the metadata up to this offset, and so has every broker in service that
    answers."""
    behind: set[Endpoint] = set()

    async def has_heard(endpoint: Endpoint) -> bool | None:
        try:
            left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
            snapshot = await cluster.connection_to(endpoint).metadata((), min(left_ms, METADATA_ATTEMPT_MS))
        except ApiError:
            if endpoint in behind and cluster.clock.now_ms() >= deadline_ms:
                return False  # our own deadline cut its last answer off
            return None  # not in service, as far as we can tell; it reads the whole metadata when it comes back
        cluster.cache.update(snapshot, cluster.clock.now_ms())
        if snapshot.metadata_offset >= metadata_offset:
            return True
        behind.add(endpoint)
        return False

    with done_but("the change was made"):
        await cluster.refresh(deadline_ms=deadline_ms)
    in_vain_ms = cluster.clock.now_ms() + IN_VAIN_MS
    while True:
        endpoints = [broker.endpoint for broker in cluster.cache.brokers if not broker.fenced]
        answers = [heard for heard in await asyncio.gather(*map(has_heard, endpoints)) if heard is not None]
        if answers and all(answers):
            return
        is_over = cluster.clock.now_ms() >= deadline_ms
        if not answers and (is_over or is_in_vain(cluster, in_vain_ms)):
            raise TimedOutError(f"the change was made, but no broker can be asked for it: {unreachable(cluster)}")
        if is_over:
            raise TimedOutError("the change was made, but some brokers do not have it yet; look again later")
        await asyncio.sleep(VISIBLE_POLL_MS / 1000)
