"""`penstock consume --isolation-level`: records of aborted transactions are printed where all records are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Producer
from tests.support.command_line import penstock
from tests.support.fake_broker import FakeCluster
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.fake_transactions import FakeTransactions


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    """One committed and one aborted transaction, and one that is open."""
    with FakeCluster(1) as made:
        made.create_topic("t", 1)
        made.transactions = FakeTransactions(made)
        made.coordinator = FakeCoordinator(made, heartbeat_interval_ms=100)
        with Producer(made.bootstrap, transactional_id="tx") as producer:
            for value, end in (
                (b"aborted", producer.abort_transaction),
                (b"committed", producer.commit_transaction),
                (b"open", None),
            ):
                producer.begin_transaction()
                producer.send("t", value).result(60)
                if end is not None:
                    end()
            yield made


ALL, SOME = b"aborted\ncommitted\nopen\n", b"committed\n"


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], ALL),
        (["--isolation-level", "read_uncommitted"], ALL),
        (["--isolation-level", "read_committed"], SOME),
    ],
)
def test_a_reader_without_a_group_prints_all_unless_it_is_told_otherwise(
    cluster: FakeCluster, options: list[str], printed: bytes
) -> None:
    words = ["consume", "t", "--from-beginning", "--exit-at-end", *options]
    assert penstock(*words, bootstrap=cluster.bootstrap).stdout == printed


@pytest.mark.parametrize(
    ("options", "count", "printed"), [([], 1, SOME), (["--isolation-level", "read_uncommitted"], 3, ALL)]
)
def test_a_group_prints_committed_records_unless_it_is_told_otherwise(
    cluster: FakeCluster, options: list[str], count: int, printed: bytes
) -> None:
    assert cluster.coordinator is not None
    cluster.coordinator.offsets.clear()
    words: list[Any] = ["consume", "t", "--from-beginning", "--group", "g", "-n", count, *options]
    assert penstock(*words, bootstrap=cluster.bootstrap).stdout == printed


def test_a_level_that_is_none_is_refused_with_those_that_are(cluster: FakeCluster) -> None:
    ended = penstock("consume", "t", "--isolation-level", "commited", bootstrap=cluster.bootstrap)
    assert ended.returncode == 2 and b"read_committed" in ended.stderr
