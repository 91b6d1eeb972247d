"""Asks brokers for the cluster's metadata as their own files have it: a digest of each, or the records of one.

At equal offsets of the metadata log all digests must be equal. Brokers have applied different offsets at any moment, so
every broker is asked first how far it is, and then for the digest at the smallest of these offsets. A broker forgets
what is before its oldest snapshot; if that happens in between, and no offset was given, the questions are put again.

A broker reads its metadata for one caller at a time and may take seconds; one that is busy is asked again until the
deadline. Not here: what the records mean.
"""

from __future__ import annotations

import asyncio
import hashlib

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.cluster_views import ClusterViews, every_view, not_here
from penstock.client.cluster import arguments
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import ServerErrors
from penstock.client.wire.connection import Connection
from penstock.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TimedOutError,
    UnknownServerError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.admin_apis import DESCRIBE_METADATA
from penstock.messages.metadata import BrokerInfo
from penstock.messages.quorum import NEWEST_OFFSET, DescribeMetadataRequest, DescribeMetadataResponse

PAGE_BYTES = 1 << 20
TRIES_MAX = 3
"""How often all brokers are asked for an offset that every one of them still has."""


@dataclass(frozen=True, slots=True)
class MetadataDigest:
    """A digest of one broker's metadata at an offset of the metadata log, or why the broker gives none."""

    node_id: int
    offset: int
    epoch: int = -1
    """The epoch of the record at the offset."""
    records: int = 0
    sha256: str = ""
    """Hash of all records, each as JSON with a newline behind it; in hexadecimal digits."""
    error: str = ""
    """The reason why the digest is missing; empty with a digest."""


@dataclass(frozen=True, slots=True)
class MetadataContent:
    """The records, each as JSON, in an order that depends on nothing but the metadata."""

    digest: MetadataDigest
    records: tuple[str, ...]


class MetadataCalls:
    """The calls of Admin about the metadata as a whole, as its faces have them."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def metadata_digests(self, at_offset: int | None = None) -> tuple[MetadataDigest, ...]:
        """A digest of the cluster's metadata by the files of each registered broker, at one offset of the metadata log.

        None: the newest offset that every broker that answers has. At equal offsets all digests are equal.
        """
        offset = None if at_offset is None else arguments.checked_number("at_offset", at_offset, 0)
        return await digests_of_all(self._core.cluster, offset, await self._core.begin())

    async def describe_metadata(self, at_offset: int | None = None, node_id: int | None = None) -> MetadataContent:
        """The records that make the metadata at an offset, by the files of this broker, or of any. None: the newest
        offset that it has."""
        offset = None if at_offset is None else arguments.checked_number("at_offset", at_offset, 0)
        node = None if node_id is None else arguments.checked_number("node_id", node_id, 0, arguments.MAX_INT32)
        return await content_of_one(self._core.cluster, offset, node, await self._core.begin())


async def digests_of_all(cluster: ClusterClient, at_offset: int | None, deadline_ms: int) -> tuple[MetadataDigest, ...]:
    """The digest of each registered broker, by node id; BootstrapError if no broker answers."""
    tries = 0
    while True:
        tries += 1
        views = await every_view(cluster, deadline_ms)
        offset = min(view.metadata_offset for view in views.by_node.values()) if at_offset is None else at_offset
        answers = await _asked(cluster, views, offset, deadline_ms)
        is_gone = any(isinstance(answer, OffsetOutOfRangeError) for answer in answers.values())
        if at_offset is not None or not is_gone or tries == TRIES_MAX:
            return tuple(_row(node_id, offset, answers[node_id]) for node_id in sorted(answers))


async def _asked(
    cluster: ClusterClient, views: ClusterViews, offset: int, deadline_ms: int
) -> dict[int, DescribeMetadataResponse | ApiError | str]:
    async def ask(broker: BrokerInfo) -> DescribeMetadataResponse | ApiError | str:
        if broker.node_id in views.silent:
            return views.silent[broker.node_id]
        if not broker.host:
            return not_here(broker.node_id)
        try:
            found = await _patiently(cluster, cluster.connection_to(broker.endpoint), (offset, 0, 0), deadline_ms)
            return _checked(found, broker.node_id, offset)
        except ApiError as error:
            return error

    brokers = views.newest.brokers
    answers = await asyncio.gather(*map(ask, brokers))
    return {broker.node_id: answer for broker, answer in zip(brokers, answers, strict=True)}


def _row(node_id: int, offset: int, answer: DescribeMetadataResponse | ApiError | str) -> MetadataDigest:
    if isinstance(answer, DescribeMetadataResponse):
        return MetadataDigest(node_id, offset, answer.epoch, answer.records, answer.sha256)
    return MetadataDigest(node_id, offset, error=str(answer))


async def content_of_one(
    cluster: ClusterClient, at_offset: int | None, node_id: int | None, deadline_ms: int
) -> MetadataContent:
    """The metadata of this broker, or of any that can answer; BrokerIdNotRegisteredError."""
    offset = NEWEST_OFFSET if at_offset is None else at_offset
    if node_id is None:
        return await cluster.any_node.ask(lambda c, _: _pages(cluster, c, offset, deadline_ms), deadline_ms)
    brokers = (await every_view(cluster, deadline_ms)).newest.brokers
    broker = next((broker for broker in brokers if broker.node_id == node_id), None)
    if broker is None:
        known = ", ".join(str(broker.node_id) for broker in brokers)
        raise BrokerIdNotRegisteredError(f"broker {node_id} is not registered; these are: {known}")
    if not broker.host:
        raise not_here(node_id)
    content = await _pages(cluster, cluster.connection_to(broker.endpoint), offset, deadline_ms)
    if content.digest.node_id != node_id:
        raise UnknownServerError(f"{broker.endpoint}: node {content.digest.node_id} answers in place of {node_id}")
    return content


async def _pages(cluster: ClusterClient, connection: Connection, offset: int, deadline_ms: int) -> MetadataContent:
    """All of them, as of the first one's offset; UnknownServerError if together they are not what it announced."""
    first = await _patiently(cluster, connection, (offset, 0, PAGE_BYTES), deadline_ms)
    lines = bytearray(first.lines)
    while len(lines) < first.size_bytes:
        if cluster.clock.now_ms() >= deadline_ms:
            raise TimedOutError(f"{connection.endpoint}: {len(lines)} of {first.size_bytes} bytes came in time")
        page = await _patiently(cluster, connection, (first.offset, len(lines), PAGE_BYTES), deadline_ms)
        _checked(page, first.node_id, first.offset)
        if not page.lines:
            break
        lines += page.lines
    if hashlib.sha256(lines).hexdigest() != first.sha256:
        raise UnknownServerError(f"{connection.endpoint}: the records are not those of the digest {first.sha256}")
    digest = MetadataDigest(first.node_id, first.offset, first.epoch, first.records, first.sha256)
    return MetadataContent(digest, tuple(lines.decode(errors="replace").split("\n")[:-1]))


def _checked(page: DescribeMetadataResponse, node_id: int, offset: int) -> DescribeMetadataResponse:
    if (page.node_id, page.offset) != (node_id, offset):
        raise UnknownServerError(
            f"node {page.node_id} tells of offset {page.offset}; node {node_id} was asked for offset {offset}"
        )
    return page


async def _patiently(
    cluster: ClusterClient, connection: Connection, asked: tuple[int, int, int], deadline_ms: int
) -> DescribeMetadataResponse:
    """The answer of a broker that may be busy, or still read when the request times out."""
    reported = ServerErrors[None]()
    attempt = 0
    while True:
        attempt += 1
        left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
        try:
            timeout_ms = min(left_ms, cluster.config.request_timeout_ms)
            return await connection.call(DESCRIBE_METADATA, DescribeMetadataRequest(*asked), timeout_ms)
        except (ResourceExhaustedError, RequestTimedOutError) as error:
            reported.note(None, error)
            wait_ms = cluster.backoff.wait_ms(attempt)
            if cluster.clock.now_ms() + wait_ms >= deadline_ms:
                raise reported.for_user(None, error) from None
            await asyncio.sleep(wait_ms / 1000)
