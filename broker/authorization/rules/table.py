"""The rule of every request that a client may send, by the name under which it goes through the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.authorization.rules import administration, groups, records, transactions
from broker.authorization.rules.ruling import Rule

RULES: Final[Mapping[str, Rule]] = {
    **records.RULES,
    **groups.RULES,
    **transactions.RULES,
    **administration.RULES,
}
