"""A right to read that is taken away ends what a fetch is told: of a log without news, and of a request that waits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.network.request_ports import Visibility
from broker.replication.partition import Partition
from penstock.errors import ApiError, TopicAuthorizationFailedError
from penstock.messages.fetch import FetchResponse
from penstock.messages.security.acls import Operation
from tests.support.fetchers import Fetcher, at, produce, run
from tests.support.partitions import PARTITION, flush


class Acls:
    """The rights of a reader (`TopicRights`)."""

    def __init__(self) -> None:
        self.version: object = object()
        self.may_read = True

    def change(self, *, may_read: bool) -> None:
        self.version, self.may_read = object(), may_read

    def refusal(self, operation: Operation, topic: str) -> ApiError | None:
        assert (operation, topic) == (Operation.READ, PARTITION.topic)
        return None if self.may_read else TopicAuthorizationFailedError("no")

    def visibility(self) -> Visibility:
        return Visibility("User:reader", self.version, lambda topic: self.may_read)


def error(answer: FetchResponse) -> type[ApiError]:
    (answered,) = answer.partitions
    assert (
        not answered.records
        and answered.high_watermark == answered.last_stable_offset == answered.log_start_offset == -1
    )
    return type(answered.error)


def reading(fetcher: Fetcher) -> Acls:
    acls = fetcher.rights = Acls()
    return acls


def test_a_full_fetch_of_a_log_without_news_is_judged_anew(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        acls = reading(fetcher)
        for _ in range(2):
            fetcher.ask(at(0), wait_ms=0, is_full=True)
            assert fetcher.answers[-1].partitions[0].error is None
        acls.change(may_read=False)
        for _ in range(2):
            fetcher.ask(at(0), wait_ms=0, is_full=True)
            assert error(fetcher.answers[-1]) is TopicAuthorizationFailedError
        acls.change(may_read=True)
        fetcher.ask(at(0), wait_ms=0, is_full=True)
        assert fetcher.answers[-1].partitions[0].error is None

    run(tmp_path, scenario, is_stream=False)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_session_that_names_nothing_new_is_told_that_its_right_is_gone(tmp_path: Path, is_stream: bool) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        acls = reading(fetcher)
        fetcher.ask(at(0), wait_ms=0)
        acls.change(may_read=False)
        fetcher.ask()
        assert error(fetcher.answers[-1]) is TopicAuthorizationFailedError, "at once, without a record"

    run(tmp_path, scenario, is_stream=is_stream)


@pytest.mark.parametrize(("is_stream", "is_full"), [(True, False), (False, False), (False, True)])
def test_a_fetch_that_waits_gets_no_record_once_its_right_is_gone(
    tmp_path: Path, is_stream: bool, is_full: bool
) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        acls = reading(fetcher)
        fetcher.ask(at(0), is_full=is_full)
        assert not fetcher.answers
        acls.change(may_read=False)
        produce(partition, b"secret")
        flush(partition)
        await asyncio.sleep(0)
        assert error(fetcher.answers[-1]) is TopicAuthorizationFailedError

    run(tmp_path, scenario, is_stream=is_stream)


def test_an_acl_of_somebody_else_is_no_news(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        acls = reading(fetcher)
        fetcher.ask(at(0), wait_ms=0)
        count = len(fetcher.answers)
        acls.change(may_read=True)
        fetcher.ask()
        assert len(fetcher.answers) == count

    run(tmp_path, scenario, is_stream=False)
