"""The answers to the scripts of classic members, as text.

    A join                       the step
      A join: MEMBER_ID_REQUIRED member=m1      an answer that came since, in the order of the speakers

Members' ids are named m1, m2 … in the order in which they are first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from tests.support.classic_scripts import SCRIPTS, Step, brief


class MemberId(str):
    """A text that is a member's id."""


class Answer(NamedTuple):
    """An answer to `who`, with its fields as text; ids of members are still what they were."""

    who: str
    what: str
    error: str
    fields: Mapping[str, Any]


class Side(Protocol):
    """Whoever answers: a coordinator."""

    def act(self, group: str, step: Step) -> None:
        """Send the step's request; a wait lets time pass."""
        ...

    def answers(self) -> Iterable[Answer]:
        """The answers that came since the last call."""
        ...


def transcript(side: Side, names: Iterable[str] = SCRIPTS) -> str:
    lines = []
    for name in names:
        lines += [f"== {name}", *_script_lines(side, name.replace(" ", "-").replace(",", ""), SCRIPTS[name]), ""]
    return "\n".join(lines)


def _script_lines(side: Side, group: str, steps: list[Step]) -> Iterable[str]:
    names: dict[str, str] = {}
    for step in steps:
        side.act(group, step)
        yield str(step)
        for answer in sorted(side.answers(), key=lambda one: one.who):
            fields = " ".join(f"{name}={_shown(value, names)}" for name, value in answer.fields.items())
            yield "  " + f"{answer.who} {answer.what}: {answer.error} {fields}".strip()


def _shown(value: Any, names: dict[str, str]) -> str:
    if isinstance(value, MemberId):
        return names.setdefault(value, f"m{len(names) + 1}") if value and value != "nobody" else repr(str(value))
    if isinstance(value, frozenset):
        ordered = sorted(value, key=lambda member: tuple(map(str, member[1:])))
        return "[" + " ".join(sorted(_shown(one, names) for one in ordered)) + "]"
    if isinstance(value, tuple):
        return "(" + " ".join(_shown(one, names) for one in value) + ")"
    return brief(value)


class Speakers:
    """The state of the script's clients: ids and generations as they were told them."""

    def __init__(self) -> None:
        self.member_ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.protocols: dict[str, tuple[Any, Any]] = {}

    def member_of(self, step: Step) -> str:
        return self.id_of(step.fields.get("member", f"@{step.who}"))

    def id_of(self, text: str) -> str:
        return self.member_ids.get(text[1:], "") if text.startswith("@") else text

    def generation_of(self, step: Step) -> int:
        generation: int = step.fields.get("generation", self.generations.get(step.who, -1))
        return generation

    def protocol_of(self, step: Step) -> tuple[Any, Any]:
        """A sync tells it since version 5."""
        if step.fields.get("version", 5) < 5:
            return None, None
        protocol_type, name = self.protocols.get(step.who, ("consumer", "range"))
        return step.fields.get("type", protocol_type), step.fields.get("protocol", name)

    def joined(self, who: str, member_id: str, generation: int, protocol: tuple[Any, Any]) -> None:
        self.member_ids[who] = member_id
        self.generations[who] = generation
        if generation >= 0:
            self.protocols[who] = protocol


def assignment_to(who: str, step: Step) -> bytes:
    return f"to {who}".encode() + b"x" * int(step.fields.get("padding", 0))


def joined_fields(
    generation: int,
    protocol: tuple[Any, Any],
    leader: str,
    skips: bool,
    member: str,
    members: Iterable[tuple[Any, ...]],
) -> dict[str, Any]:
    return {
        "member": MemberId(member),
        "generation": generation,
        "protocol": protocol,
        "leader": MemberId(leader),
        "skips": skips,
        "members": unordered(members),
    }


def unordered(members: Iterable[tuple[Any, ...]]) -> frozenset[tuple[Any, ...]]:
    """Members with their ids first; a coordinator tells them in any order."""
    return frozenset((MemberId(member[0]), *member[1:]) for member in members)
