"""Judges what one call of an attacker came to: how it was refused, what it was told, and the holes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

LOGIN, RIGHTS, SENDER, TLS, NO_SUCH = "login", "rights", "node", "tls", "absent"
OLD, LARGE, TOLD, HOLE = "old", "large", "told", "HOLE"
ELSEWHERE, OFF = "elsewhere", "off"
KINDS: Final = {
    LOGIN: "refused: the caller has not logged in, or could not",
    RIGHTS: "refused: the caller has no right to it",
    SENDER: "refused: the caller is no node of this cluster, or not the one in whose name it speaks",
    TLS: "there is no connection on which to ask",
    NO_SUCH: "the listener does not have it",
    OLD: "refused for its version, before anything is looked at",
    LARGE: "refused for its size, before anything is looked at",
    OFF: "refused: it is off, here and in every cluster (delegation tokens)",
    ELSEWHERE: "another broker has the group that the caller may use",
    TOLD: "answered, without anything of what the attacker may not know",
}
CODES: Final = {
    **dict.fromkeys((1000, 58, 34), LOGIN),
    **dict.fromkeys((29, 30, 31, 53, 54), RIGHTS),
    **dict.fromkeys((61, 64), OFF),
    117: TOLD,  # UNKNOWN_SUBSCRIPTION_ID: a push of metrics by a subscription that nobody gave out
}
"""Refusals by their error codes. Any other code shows that a call came further than it may."""


NOT_COORDINATOR: Final = "codes [16]"
ALIKE: Final = (("there", "missing"), ("there far", "missing far"), ("there", "there far"))
"""Variants of a request whose answers are the same but for the names in them."""


@dataclass
class Secrets:
    """Texts that no answer may have. `echoed` are those that the attacker has named itself, and may hear again."""

    hidden: tuple[bytes, ...]
    there: tuple[str, ...]
    missing: tuple[str, ...]

    def in_answer(self, answer: bytes, *, is_named: bool) -> list[str]:
        wanted = self.hidden if is_named else (*self.hidden, *(text.encode() for text in self.there))
        return [text.decode() for text in wanted if text in answer]

    def as_missing(self, answer: bytes) -> bytes:
        """The answer about what is there, as it would be about what is not there."""
        for there, missing in zip(self.there, self.missing, strict=True):
            answer = answer.replace(there.encode(), missing.encode())
        return answer


@dataclass(frozen=True)
class Outcome:
    """One call's: its kind, and everything that the attacker received, errors' texts too."""

    kind: str
    received: bytes = b""
    why: str = ""


def of_own_group(outcome: Outcome) -> Outcome:
    """That of a call which names a group that its caller may use: the broker that was asked may not have it."""
    return replace(outcome, kind=ELSEWHERE) if outcome.why == NOT_COORDINATOR else outcome


@dataclass
class Table:
    """RPC × attacker, and the holes."""

    cells: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    holes: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)

    def judge(
        self, rpc: str, attacker: str, outcomes: Mapping[str, Outcome], secrets: Secrets, *, may_be_told: bool
    ) -> None:
        """The outcomes by variant of the request. What is asked of a partition that no topic has ("there far") is
        answered as it is of one that there is."""
        cell = self.cells.setdefault(rpc, {}).setdefault(attacker, Counter())
        self.calls[attacker] += len(outcomes)
        for variant, outcome in outcomes.items():
            is_named = variant.startswith("there")
            if found := secrets.in_answer(outcome.received, is_named=is_named):
                self.hole(f"{rpc}, {attacker}, {variant}: the answer has {', '.join(sorted(set(found)))}")
            if variant.startswith(("there", "missing")):
                cell[outcome.kind] += 1
                if outcome.kind == HOLE or (outcome.kind == TOLD and not may_be_told):
                    self.hole(
                        f"{rpc}, {attacker}, {variant}: was not refused: {outcome.why or outcome.received[:200]!r}"
                    )
                    cell[HOLE] += 1
        for one, other in ALIKE:
            there, missing = outcomes.get(one), outcomes.get(other)
            if there is not None and missing is not None:
                as_missing = [secrets.as_missing(found.received) for found in (there, missing)]
                if (there.kind, as_missing[0]) != (missing.kind, as_missing[1]):
                    self.hole(f"{rpc}, {attacker}: tells what is there from what is not: {there} {missing}"[:900])

    def hole(self, text: str) -> None:
        self.holes.append(text)

    def lines(self, attackers: Iterable[str]) -> list[str]:
        columns = list(attackers)
        width = max(map(len, self.cells), default=0) + 2
        lines = [" " * width + "  ".join(columns)]
        for rpc, row in sorted(self.cells.items()):
            cells = (_cell(row.get(name, Counter())).ljust(len(name)) for name in columns)
            lines.append(rpc.ljust(width) + "  ".join(cells))
        return lines


def _cell(counts: Counter[str]) -> str:
    if not counts:
        return "-"
    return HOLE if counts[HOLE] else "+".join(sorted(counts))
