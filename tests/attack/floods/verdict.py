"""Judges one flood by the bounds of its row: acts of honest clients, the node's memory, figures of the flooder.

Pure. A kind of honest client that loses as much beside the control, which is the flooder's work against nobody, is held
up by the machine: then the row is told apart, because it says nothing of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.attack.floods.measures import GONE, Beside, Node
from tests.attack.floods.table import Bounds, Row

OK, MISSED, MACHINE = "ok", "MISSED", "machine"
MISSES_TOLD: Final = 3
HEADS: Final = (
    "flood",
    "door",
    "who",
    "addresses",
    "worst kind",
    "acts/s alone",
    "beside",
    "pause s",
    "MiB",
    "verdict",
)


@dataclass(frozen=True)
class Played:
    """One flood, measured. `control` has the kinds that were measured beside the flooder's work against nobody."""

    row: Row
    beside: Mapping[str, Beside]
    taken: Node = GONE
    figures: Mapping[str, float] = field(default_factory=dict)
    facts: Sequence[str] = ()
    """Facts that no bound allows: the node ended, or its log has a traceback."""
    control: Mapping[str, Beside] | None = None
    errors: Sequence[str] = ()

    @property
    def slow(self) -> list[str]:
        """The kinds that were held up, without a look at the control."""
        return _slow(self.beside, self.row.bounds)

    @property
    def blamed(self) -> list[str]:
        """The kinds that the node held up, and not the machine."""
        excused = set(_slow(self.control, self.row.bounds)) if self.control is not None else set()
        return [kind for kind in self.slow if kind not in excused]

    @property
    def misses(self) -> list[str]:
        bounds, found = self.row.bounds, list(self.facts)
        for what, limit in (
            ("memory_mib", bounds.memory_mib),
            ("descriptors", bounds.descriptors),
            ("threads", bounds.threads),
        ):
            if (value := getattr(self.taken, what)) > limit:
                found.append(f"{what} +{value:.0f} (at most {limit:g})")
        for name, limit in {"log_kib": bounds.log_kib, **bounds.figures}.items():
            if (value := self.figures.get(name, 0.0)) > limit:
                found.append(f"{name} {value:g} (at most {limit:g})")
        return found + [f"{kind}: {_told(self.beside[kind])}" for kind in self.blamed]

    @property
    def kinds_of_misses(self) -> set[str]:
        """The misses without their figures. Honest clients that were held up are one kind, whichever they are."""
        kinds = set(self.beside)
        words = {miss.split(":")[0].split()[0] for miss in self.misses}
        return words - kinds | ({"honest"} if words & kinds else set())

    @property
    def verdict(self) -> str:
        if self.misses:
            return MISSED
        return MACHINE if self.slow else OK

    @property
    def worst(self) -> str:
        """The kind that lost most."""
        return min(self.beside, key=lambda kind: self.beside[kind].part) if self.beside else ""

    @property
    def pause_s(self) -> float:
        return max((one.pause_s for one in self.beside.values()), default=0.0)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.row.name,
            "door": self.row.door,
            "verdict": self.verdict,
            "misses": self.misses,
            "beside": {kind: {**asdict(one), "part": round(one.part, 3)} for kind, one in self.beside.items()},
            "control": {kind: asdict(one) for kind, one in (self.control or {}).items()},
            "taken": self.taken._asdict(),
            "figures": dict(self.figures),
            "errors": list(self.errors),
        }


def _slow(beside: Mapping[str, Beside], bounds: Bounds) -> list[str]:
    return [kind for kind, one in beside.items() if one.part < bounds.rate or one.pause_s > bounds.pause_s]


def _told(one: Beside) -> str:
    return f"{one.alone:.1f} → {one.beside:.1f}/s, pause {one.pause_s:.1f} s"


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head() -> list[str]:
    return [_line(HEADS), _line("---" for _ in HEADS)]


def line(played: Played) -> str:
    """The row of the table."""
    row, worst = played.row, played.worst
    one = played.beside.get(worst, Beside(0, 0, 0))
    told = played.misses[:MISSES_TOLD]
    told += [f"and {len(played.misses) - MISSES_TOLD} more"] if len(played.misses) > MISSES_TOLD else []
    more = f": {'; '.join(told)}" if told else ""
    return _line(
        (
            row.flood.partition("@")[0],
            f"{row.door}{', plain' if row.is_plain else ''}",
            row.who,
            row.whence,
            worst,
            f"{one.alone:.1f}",
            f"{one.beside:.1f}",
            f"{played.pause_s:.1f}",
            f"+{played.taken.memory_mib:.0f}",
            played.verdict + more,
        )
    )
