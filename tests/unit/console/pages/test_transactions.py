"""Transactional ids: filtered, a page at a time, and how long a transaction has been open."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.admin.transactions.transaction_types import TransactionDetails, TransactionOverview
from penstock.console.fields import FieldError
from penstock.console.page import ROWS_MAX
from penstock.console.pages.transactions import show_transaction, show_transactions
from tests.support.console_pages import WALL_MS, view_of


class FakeAdmin:
    def __init__(self, start_ms: int = -1) -> None:
        self.asked: dict[str, Any] = {}
        self.start_ms = start_ms

    async def list_transactions(self, **asked: Any) -> list[TransactionOverview]:
        self.asked = asked
        return [TransactionOverview(f"id-{number:03}", number, "Ongoing", 1) for number in range(2 * ROWS_MAX + 1)]

    async def describe_transaction(self, transactional_id: str) -> TransactionDetails:
        return TransactionDetails(transactional_id, start_ms=self.start_ms)


def test_a_long_list_has_pages_and_a_number_beyond_the_end_is_the_last_one() -> None:
    admin = FakeAdmin()
    view = view_of(show_transactions, admin, page="99", state="Ongoing", open_for="5")
    assert (view.slice.number, view.slice.pages, len(view.transactions)) == (3, 3, 1)
    assert admin.asked == {"states": ("Ongoing",), "open_for_ms": 300_000}
    assert [one.transactional_id for one in view_of(show_transactions, admin, filter="-07").transactions][:2] == [
        "id-070",
        "id-071",
    ]


def test_a_state_that_no_transaction_has_is_refused() -> None:
    with pytest.raises(FieldError, match=r"^state: must be one of"):
        view_of(show_transactions, FakeAdmin(), state="open")


@pytest.mark.parametrize(("start_ms", "open_ms"), [(-1, None), (WALL_MS - 5, 5), (WALL_MS + 5, 0)])
def test_a_transaction_says_for_how_long_it_is_open(start_ms: int, open_ms: int | None) -> None:
    assert view_of(show_transaction, FakeAdmin(start_ms), id="a").open_ms == open_ms
