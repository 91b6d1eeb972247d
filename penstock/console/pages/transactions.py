"""Transactional ids, and the transaction of one, as `penstock transactions list` and `describe` have them."""

from __future__ import annotations

from typing import Final

from penstock.client.admin.transactions.transaction_types import TransactionDetails, TransactionOverview
from penstock.console.page import PageAsked, Slice
from penstock.lazy_dataclass import dataclass
from penstock.messages.transactions.listing import TransactionState
from penstock.written.numbers import INT64_MAX

STATES: Final = tuple(state.value for state in TransactionState)
MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class TransactionsView:
    """One page of transactional ids."""

    transactions: tuple[TransactionOverview, ...]
    slice: Slice
    filter: str
    state: str
    open_for: int | None
    """Minutes for which a transaction must be open."""
    states: tuple[str, ...] = STATES


@dataclass(frozen=True, slots=True)
class TransactionView:
    """One transactional id."""

    transaction: TransactionDetails
    open_ms: int | None
    """The time for which its transaction has been open; None without one."""


async def show_transactions(asked: PageAsked) -> TransactionsView:
    """Asks every coordinator."""
    wanted, state = asked.fields.text("filter", ""), asked.fields.choice("state", ("", *STATES), "")
    minutes = asked.fields.maybe_number("open_for", 0, INT64_MAX // MINUTE_MS)
    found = await asked.admin.list_transactions(
        states=(state,) if state else (), open_for_ms=None if minutes is None else minutes * MINUTE_MS
    )
    fitting = [one for one in found if wanted in one.transactional_id]
    part = Slice.of(len(fitting), asked.fields)
    return TransactionsView(tuple(fitting[part.rows]), part, wanted, state, minutes)


async def show_transaction(asked: PageAsked) -> TransactionView:
    """Asks the coordinator of one id."""
    found = await asked.admin.describe_transaction(asked.fields.text("id"))
    return TransactionView(found, max(0, asked.wall_ms - found.start_ms) if found.start_ms >= 0 else None)
