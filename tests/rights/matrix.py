"""Each role's tools with exactly its rights, and with each of them taken away.

A tool that needs the right must be refused within LIMIT_S, in one line that names the right. Any other must work as
before. So a role has every right that its tools need, and none that no tool needs, but for those that are implied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.client.admin.admin_types import AclBinding, Operation, PatternType, ResourceType
from penstock.client.admin.security.acls import IMPLIED_BY
from penstock.client.admin.security.roles import ROLES, Role, RoleRight, role_acls
from tests.rights.stage import GROUP, IDS, ORDERS, OUT, RefusedCommandError, Stage, Who

LIMIT_S = 8.0
"""A refusal takes milliseconds, a new client's log-in a tenth of a second; time-outs that hide refusals take 15 s."""

Key = tuple[Operation, ResourceType]
NAMES = {
    ResourceType.TOPIC: (ORDERS, OUT, "own-"),
    ResourceType.GROUP: (GROUP,),
    ResourceType.TRANSACTIONAL_ID: (IDS,),
}
"""As prefixes; the role of Spark's sink has the ids that it gives by itself."""


@dataclass(frozen=True)
class Tool:
    """Something that a role's program does; `needs` are the rights without which it is refused."""

    name: str
    run: Callable[[Stage, Who], object]
    needs: tuple[Key, ...]
    is_kafka: bool = False
    """Its errors have Kafka's codes, which name a kind of resource and nothing more."""
    limit_s: float = LIMIT_S
    slow: tuple[Key, ...] = ()
    """The rights without which it takes seconds to be refused."""

    def is_quickly_without(self, right: RoleRight) -> bool:
        key = key_of(right)
        return key in self.needs and key not in self.slow and not right.is_implied


@dataclass(frozen=True)
class Outcome:
    """One run of a tool with one right taken away (None: with all)."""

    role: str
    tool: Tool
    without: RoleRight | None
    text: str
    """The error's; "" if it worked."""
    seconds: float

    @property
    def trouble(self) -> str:
        """Anything that is not as it should be; "" if nothing is."""
        right = self.without
        if right is None or key_of(right) not in self.tool.needs or right.is_implied:
            return f"failed: {self.text}" if self.text else ""
        if not self.text:
            return "worked, and is said to need the right"
        if self.seconds > self.tool.limit_s:
            return f"took {self.seconds:.1f} s"
        if "\n" in self.text:
            return "more than one line"
        return "" if self._names(right) else "does not name the right"

    def _names(self, right: RoleRight) -> bool:
        kind = right.resource_type
        if self.tool.is_kafka:
            words = self.text.lower().replace("_", "").replace(" ", "")
            kinds = {kind.value, *(["cluster"] if key_of(right) == (Operation.WRITE, ResourceType.TOPIC) else [])}
            return any(f"{one.replace(' ', '')}authorizationfailed" in words for one in kinds)
        operations = [right.operation, *(one for one, by in IMPLIED_BY.items() if right.operation in by)]
        what = "on the cluster" if kind is ResourceType.CLUSTER else f"on {kind.value} '"
        named = [f"{operation.value} {what}" for operation in operations]
        if key_of(right) == (Operation.WRITE, ResourceType.TOPIC):
            named.append("Write on any topic")  # for want of a producer id (KIP-679)
        return any(words in self.text for words in named)


def key_of(right: RoleRight) -> Key:
    return right.operation, right.resource_type


def outcomes(
    stage: Stage, role: str, tools: Sequence[Tool], *, quick: bool = False, one_of: int = 1
) -> Iterator[Outcome]:
    """With all rights of the role, or of several with plus signs between, then without each of them. `quick`: only the
    tools that need the right, and not those that are slow to be refused; one of so many of these."""
    who = stage.user(role)
    by_right = {right: acls_of(right, who) for name in role.split("+") for right in ROLES[name].rights}
    for without in (None, *by_right):
        asked = tools
        if quick and without is not None:
            asked = [tool for tool in tools if tool.is_quickly_without(without)][::one_of]
        if not asked:
            continue
        rest = [right for right in by_right if right is not without]
        stage.allow(who, [acl for right in rest for acl in by_right[right]])
        for tool in asked:
            yield outcome(stage, who, role, tool, without)


def acls_of(right: RoleRight, who: Who) -> list[AclBinding]:
    """The ACLs that `penstock acls create --role` makes of one right."""
    names = {} if right.every else NAMES
    alone = Role("", "", (right,))
    return role_acls(alone, who.principal, names, pattern=PatternType.PREFIXED)


def outcome(stage: Stage, who: Who, role: str, tool: Tool, without: RoleRight | None) -> Outcome:
    began, text = time.monotonic(), ""
    try:
        tool.run(stage, who)
    except RefusedCommandError as error:
        text = str(error)
    except Exception as error:
        text = str(error) or type(error).__name__
    return Outcome(role, tool, without, text, time.monotonic() - began)
