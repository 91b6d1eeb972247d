"""DescribeMetadata shows what this node has applied and keeps, for one caller at a time, and the loop never waits."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable

import pytest

from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.quorum.describe_metadata import KEPT_MS, PAGE_BYTES_MAX, DescribeMetadataApi, OwnMetadata
from metadata.codec import encode_record
from metadata.image import image_records
from metadata.records import TopicRecord
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    KafkaStorageError,
    NetworkError,
    OffsetOutOfRangeError,
    PositionOutOfRangeError,
    ResourceExhaustedError,
)
from penstock.messages.quorum import DescribeMetadataRequest, DescribeMetadataResponse
from tests.support.sinks import CALLER
from tests.support.stepped_threads import SteppedThreads
from tests.support.storage import NOW_MS, batch
from tests.support.virtual_time import run_virtual
from tests.unit.broker.quorum.test_metadata_reader import DIRECTORY, ENDS, Node

LAST = ENDS[-1]


class Sink:
    def response_ready(self, request: Request) -> None:
        """The answer is looked at in the request."""


class Stage:
    """A node whose thread does its work when the test says so. `applied` and `kept_from` are as the node has them."""

    def __init__(self) -> None:
        self.node, self.threads = Node(300), SteppedThreads(random.Random(1))
        self.applied, self.kept_from = LAST, 0
        self.fatal: list[BaseException] = []
        own = OwnMetadata(7, self.node.fs, DIRECTORY, lambda: self.applied, lambda: self.kept_from)
        self.failed = FailedRequests(self.fatal.append)
        self.api = DescribeMetadataApi(own, self.threads, self.failed.fail)

    def ask(self, offset: int = -1, position: int = 0, max_bytes: int = 0) -> Request:
        body = DescribeMetadataRequest(offset, position, max_bytes)
        request = Request("DescribeMetadata", body, Sink(), CALLER, lambda: 1)
        try:
            self.api.handle(request, body)
        except ApiError as error:
            self.failed.fail(request, error)
        return request

    async def work(self) -> None:
        """Runs the thread's work, and the loop's reaction to it."""
        self.threads.run_all()
        await asyncio.sleep(0)

    async def answer(self, *asked: int) -> DescribeMetadataResponse:
        request = self.ask(*asked)
        await self.work()
        assert request.error is None and isinstance(request.response, DescribeMetadataResponse)
        return request.response

    async def error(self, *asked: int) -> ApiError:
        request = self.ask(*asked)
        await self.work()
        assert request.error is not None
        return request.error

    def lines(self, offset: int) -> bytes:
        return b"".join(encode_record(record) + b"\n" for record in image_records(self.node.images[offset]))


def run(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        await story(stage)
        assert not stage.fatal

    run_virtual(main())


def test_the_digest_is_that_of_the_image_at_the_offset() -> None:
    async def story(stage: Stage) -> None:
        for offset in ENDS:
            image, found = stage.node.images[offset], await stage.answer(offset)
            assert (found.node_id, found.offset, found.epoch, found.lines) == (7, offset, 1, b"")
            assert found.sha256 == image.digest() and found.records == len(list(image_records(image)))
        assert (await stage.answer()).offset == LAST

    run(story)


def test_what_is_not_applied_is_not_shown() -> None:
    """The files have it, but nothing says that it is committed."""

    async def story(stage: Stage) -> None:
        stage.applied = 4
        assert (await stage.answer()).offset == 4
        refused = await stage.error(6)
        assert isinstance(refused, OffsetOutOfRangeError) and "at the offsets 0 to 4, not at 6" in str(refused)
        stage.node.log.append.as_leader(batch(encode_record(TopicRecord("x", "id-x"))), 2, NOW_MS)
        assert (await stage.answer(4)).sha256 == stage.node.images[4].digest()
        stage.applied = -1
        assert isinstance(await stage.error(), OffsetOutOfRangeError)

    run(story)


def test_what_is_older_than_the_oldest_snapshot_is_refused() -> None:
    async def story(stage: Stage) -> None:
        stage.node.cut_to(4)
        stage.kept_from = 5
        refused = await stage.error(3)
        assert isinstance(refused, OffsetOutOfRangeError) and "at the offsets 4 to 6, not at 3" in str(refused)
        assert (refused.log_start_offset, refused.log_end_offset) == (4, 6)
        assert (await stage.answer(4)).sha256 == stage.node.images[4].digest()
        assert (await stage.answer(6)).sha256 == stage.node.images[6].digest()

    run(story)


def test_pages_together_are_the_lines_of_the_digest() -> None:
    async def story(stage: Stage) -> None:
        whole = stage.lines(LAST)
        found, pages = await stage.answer(LAST, 0, 10), []
        for position in range(0, found.size_bytes, 10):
            page = await stage.answer(LAST, position, 10)
            assert (page.sha256, page.size_bytes, page.records) == (found.sha256, len(whole), whole.count(b"\n"))
            pages.append(page.lines)
        assert b"".join(pages) == whole and hashlib.sha256(whole).hexdigest() == found.sha256
        assert (await stage.answer(LAST, len(whole), 10)).lines == b""
        assert isinstance(await stage.error(LAST, len(whole) + 1, 10), PositionOutOfRangeError)
        assert (await stage.answer(LAST, 0, PAGE_BYTES_MAX * 1000)).lines == whole

    run(story)


def test_a_page_is_no_larger_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.quorum.describe_metadata.PAGE_BYTES_MAX", 30)

    async def story(stage: Stage) -> None:
        assert (await stage.answer(LAST, 5, 1 << 30)).lines == stage.lines(LAST)[5:35]

    run(story)


def test_others_are_refused_while_the_files_are_read() -> None:
    async def story(stage: Stage) -> None:
        first = stage.ask(LAST)
        for asked in ((LAST,), (4,), (LAST, 0, 100)):
            refused = await_now(stage.ask(*asked))
            assert isinstance(refused, ResourceExhaustedError) and refused.retriable
        await stage.work()
        assert first.error is None and first.is_complete
        assert (await stage.answer(4)).offset == 4

    run(story)


def await_now(request: Request) -> ApiError | None:
    assert request.is_complete, "the loop did not wait"
    return request.error


def test_others_are_refused_while_pages_are_asked_for_and_not_for_long() -> None:
    async def story(stage: Stage) -> None:
        await stage.answer(LAST, 0, 10)
        assert isinstance(await stage.error(4), ResourceExhaustedError)
        reads = stage.node.fs.reads
        assert (await stage.answer(LAST)).sha256 == stage.node.images[LAST].digest(), "the same one is known"
        await asyncio.sleep(0.9 * KEPT_MS / 1000)
        assert (await stage.answer(LAST, 10, 10)).lines == stage.lines(LAST)[10:20]
        await asyncio.sleep(0.9 * KEPT_MS / 1000)
        assert isinstance(await stage.error(4), ResourceExhaustedError) and stage.node.fs.reads == reads
        await asyncio.sleep(0.2 * KEPT_MS / 1000)
        assert (await stage.answer(4)).offset == 4, "the caller is gone"
        assert (await stage.answer(LAST, 20, 10)).lines == stage.lines(LAST)[20:30], "or was slow, and goes on"
        await stage.answer(LAST, 30, 1 << 20)
        assert (await stage.answer(4, 0, 10)).offset == 4, "the last page was given"

    run(story)


def test_pages_go_on_though_the_node_forgets_the_offset_meanwhile() -> None:
    async def story(stage: Stage) -> None:
        await stage.answer(3, 0, 10)
        stage.node.cut_to(4)
        stage.kept_from = 5
        assert (await stage.answer(3, 10, 1 << 20)).lines == stage.lines(3)[10:]
        assert isinstance(await stage.error(3, 0, 10), OffsetOutOfRangeError)

    run(story)


def test_an_offset_that_goes_while_it_is_read_is_refused_with_what_is_left() -> None:
    async def story(stage: Stage) -> None:
        request = stage.ask(3)
        stage.node.cut_to(4)
        stage.kept_from = 5
        await stage.work()
        assert isinstance(request.error, OffsetOutOfRangeError)
        assert "at the offsets 4 to 6, not at 3" in str(request.error)

    run(story)


def test_damage_is_named_and_ends_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.node.fs.damage(f"{DIRECTORY}/{0:020d}.log", 70, 1)
        refused = await stage.error(6)
        assert isinstance(refused, KafkaStorageError)
        assert "offset 6" in str(refused) and "damaged at byte" in str(refused)
        stage.node.write_snapshot(4)
        assert (await stage.answer(6)).sha256 == stage.node.images[6].digest()

    run(story)


def test_questions_without_an_answer_are_told_so() -> None:
    async def story(stage: Stage) -> None:
        for asked in ((-2,), (0, -1, 10), (0, 0, -1)):
            refused = await stage.error(*asked)
            assert isinstance(refused, InvalidRequestError) and "must not be negative" in str(refused)
        refused = await stage.error(1)
        assert isinstance(refused, InvalidRequestError) and "the metadata stands at 0 and at 3" in str(refused)

    run(story)


def test_a_stop_answers_the_caller_and_waits_for_no_disk() -> None:
    async def story(stage: Stage) -> None:
        request = stage.ask(6, 0, 10)
        stage.api.close()
        assert isinstance(await_now(request), NetworkError)
        assert isinstance(await stage.error(6), NetworkError)
        assert isinstance(request.error, NetworkError), "the thread's late answer changes nothing"
        assert "nothing is kept" in repr(stage.api)
        assert isinstance(await stage.error(6), NetworkError)

    run(story)


def test_without_a_thread_the_caller_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        with monkeypatch.context() as shortage:
            shortage.setattr(type(stage.threads.workers("x")), "grow", no_thread)
            assert isinstance(await stage.error(6), ResourceExhaustedError)
        assert (await stage.answer(6)).offset == 6

    run(story)


def no_thread(_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_an_error_that_nobody_expects_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        def broken() -> None:
            raise ZeroDivisionError("a bug")

        stage.node.fs.change, stage.node.fs.change_at = broken, stage.node.fs.reads + 1
        assert "a bug" in str(await stage.error(6))
        assert (await stage.answer(6)).offset == 6

    run(story)
    assert "a bug" in caplog.text
