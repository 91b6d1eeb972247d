"""Every broker is asked for its metadata at one offset that all have, and its pages come together; in virtual time."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

import pytest

from penstock import AsyncAdmin
from penstock.client.admin import metadata_content
from penstock.errors import (
    BrokerIdNotRegisteredError,
    NetworkError,
    OffsetOutOfRangeError,
    ResourceExhaustedError,
    UnknownServerError,
)
from penstock.messages.admin_apis import DESCRIBE_METADATA
from tests.support.client_environment import fake_environment
from tests.support.fake_node import METADATA_LINES, FakeNode
from tests.support.fake_nodes import FakeNodes
from tests.support.late_answers import cut_off_after
from tests.support.virtual_time import run_virtual, virtual_clock

LIMIT_MS = 20_000
SHA256 = hashlib.sha256(METADATA_LINES).hexdigest()
Story = Callable[[FakeNodes, AsyncAdmin], Awaitable[None]]


def run(story: Story) -> None:
    async def main() -> None:
        nodes = FakeNodes({0: 1}, 3)
        for node, offset in ((1, 9), (2, 7), (3, 8)):
            nodes.cluster.on_describe_cluster[node] = lambda answer, offset=offset: setattr(  # type: ignore[misc]
                answer, "metadata_offset", offset
            )
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=LIMIT_MS) as admin:
            await story(nodes, admin)

    run_virtual(main())


def test_all_are_asked_at_the_smallest_offset_that_a_broker_has_applied() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        rows = await admin.metadata_digests()
        assert [(row.node_id, row.offset, row.sha256, row.error) for row in rows] == [
            (node, 7, SHA256, "") for node in (1, 2, 3)
        ]
        assert {(row.epoch, row.records) for row in rows} == {(3, 2)}
        assert {row.offset for row in await admin.metadata_digests(5)} == {5}

    run(story)


def test_a_broker_that_hangs_or_refuses_has_a_row_with_its_error_and_holds_up_nobody() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.hang(2)
        nodes.cluster.metadata_refusals[3].append(NetworkError("it stops"))
        began_ms = virtual_clock().now_ms()
        rows = await admin.metadata_digests()
        assert virtual_clock().now_ms() - began_ms < LIMIT_MS / 2
        assert [row.node_id for row in rows if row.error] == [2, 3] and "it stops" in rows[2].error
        assert (rows[0].offset, rows[0].sha256, rows[2].sha256) == (8, SHA256, ""), "the smallest of who answers"

    run(story)


def test_a_busy_broker_is_asked_again_until_the_deadline() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        refusals = nodes.cluster.metadata_refusals[2]
        refusals += [ResourceExhaustedError("busy")] * 5
        assert {row.error for row in await admin.metadata_digests()} == {""} and not refusals
        refusals += [ResourceExhaustedError("busy")] * 10_000
        began_ms = virtual_clock().now_ms()
        assert [row.error for row in await admin.metadata_digests()] == ["", "busy", ""]
        assert virtual_clock().now_ms() - began_ms <= LIMIT_MS

    run(story)


def test_why_a_broker_gave_no_metadata_is_told_when_the_deadline_cuts_its_last_answer_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.metadata_refusals[2].append(ResourceExhaustedError("busy"))
        cut_off_after(3, DESCRIBE_METADATA, monkeypatch)
        one, other, third = [row.error for row in await admin.metadata_digests()]
        assert one == third == "" and other == "busy; the last attempt had no answer: fake:2 is late"

    run(story)


def test_an_offset_that_a_broker_forgot_meanwhile_is_looked_for_anew() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        refusals = nodes.cluster.metadata_refusals[1]
        refusals += [OffsetOutOfRangeError("gone")] * (metadata_content.TRIES_MAX - 1)
        assert {row.error for row in await admin.metadata_digests()} == {""} and not refusals
        refusals += [OffsetOutOfRangeError("gone")] * 100
        assert [row.error for row in await admin.metadata_digests()] == ["gone", "", ""]
        assert len(refusals) == 100 - metadata_content.TRIES_MAX
        assert [row.error for row in await admin.metadata_digests(5)] == ["gone", "", ""]
        assert len(refusals) == 99 - metadata_content.TRIES_MAX, "the user's own offset is asked for once"

    run(story)


def test_pages_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_content, "PAGE_BYTES", 7)

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.heard_offset = 4
        content = await admin.describe_metadata(node_id=2)
        assert content.records == ('{"type":"Topic","name":"a"}', '{"type":"Topic","name":"b"}')
        assert (content.digest.node_id, content.digest.offset, content.digest.sha256) == (2, 4, SHA256)
        assert (await admin.describe_metadata(3)).digest.offset == 3
        nodes.cluster.metadata_lines[2] = b""
        assert (await admin.describe_metadata(node_id=2)).records == ()
        with pytest.raises(BrokerIdNotRegisteredError, match="broker 4 is not registered; these are: 1, 2, 3"):
            await admin.describe_metadata(node_id=4)

    run(story)


def test_a_broker_whose_pages_do_not_fit_together_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_content, "PAGE_BYTES", 30)

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        for node in (1, 2, 3):  # each page is of other lines, which are as long
            nodes.cluster.metadata_lines[node] = Changing(METADATA_LINES)
        with pytest.raises(UnknownServerError, match="the records are not those of the digest"):
            await admin.describe_metadata(5, 2)

    run(story)


def test_a_node_that_answers_in_place_of_another_is_not_believed() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.network.leave(nodes.cluster.endpoints[2])
        nodes.network.listen(nodes.cluster.endpoints[2], FakeNode(nodes.cluster, 1))
        with pytest.raises(UnknownServerError, match="node 1 answers in place of 2"):
            await admin.describe_metadata(5, 2)
        rows = await admin.metadata_digests(5)
        assert [row.error for row in rows] == ["", f"node 1 answers at {nodes.cluster.endpoints[2]}", ""]

    run(story)


class Changing(bytes):
    """Lines whose later part is another one each time."""

    def __getitem__(self, key: object) -> bytes:  # type: ignore[override]
        part = super().__getitem__(key)  # type: ignore[call-overload]
        return part if key == slice(0, None) else b"x" * len(part)
