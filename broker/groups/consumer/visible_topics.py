"""The topics that the members of a group may know of, where an authorizer judges: a pattern stands for those alone that
each member which subscribes by it may describe. Otherwise it would tell which topics there are.

A member's rights come with its heartbeats, as those of its principal: hosts are not told apart here. If they have
changed, its pattern is resolved again with that heartbeat, and the names that it gave before are judged again. After a
load, rights are not known until each member was heard: until then a pattern loses topics, and gets none. Soft state of
one group; without an authorizer it stays empty.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field

from broker.groups.consumer.member import Member
from broker.network.request_ports import Visibility
from penstock.lazy_dataclass import dataclass


@dataclass(slots=True)
class Subscribers:
    """The members that subscribe by one pattern."""

    principals: set[str] = field(default_factory=set)
    are_all_heard: bool = True


@dataclass(slots=True)
class VisibleTopics:
    principals: dict[str, str] = field(default_factory=dict)
    """The principal of each member that was heard, by the member's id."""
    unheard: set[str] | None = None
    """Members with a pattern that were not heard since a load; None while nobody was."""
    _of: dict[str, Visibility] = field(default_factory=dict)
    """The newest of each principal."""
    _named: dict[str, object] = field(default_factory=dict)
    """The version of the rights by which the names of each member were judged last, by the member's id."""
    _resolved: dict[str, dict[str, object]] = field(default_factory=dict)
    """The principals for whom each pattern was resolved last, with the versions of their rights then."""

    def hidden_name(self, member: Member, visibility: Visibility | None) -> str | None:
        """A topic that the member named before and may not know of any more. Its assignment would tell of changes."""
        if visibility is None or self._named.get(member.member_id) is visibility.version:
            return None
        hidden = next((name for name in sorted(member.names) if not visibility.sees(name)), None)
        if hidden is None:
            self._named[member.member_id] = visibility.version
        return hidden

    def heard(
        self,
        members: Mapping[str, Member],
        before: Member,
        member: Member,
        visibility: Visibility | None,
        unresolved: Container[str] = (),
    ) -> bool:
        """A heartbeat came of a member, as it was before and is now; True if patterns must be resolved again.
        `unresolved`: those that wait for that already."""
        if visibility is None:
            return False
        is_news = self._is_waited_for(members, member.member_id)
        self.principals[member.member_id] = visibility.principal
        self._of[visibility.principal] = visibility
        if before.regex is not None and before.regex != member.regex:
            is_news = is_news or self._is_shared(before.regex)
        if member.regex is not None and member.regex not in unresolved:
            is_news = (
                is_news or self._resolved.get(member.regex, {}).get(visibility.principal) is not visibility.version
            )
        return is_news

    def _is_shared(self, regex: str) -> bool:
        """True if what it stands for is less than one of its principals may know of, perhaps."""
        return len(self._resolved.get(regex, ())) > 1

    def _is_waited_for(self, members: Mapping[str, Member], member_id: str) -> bool:
        """True if it is the last that was."""
        if self.unheard is None:
            self.unheard = {one.member_id for one in members.values() if one.regex is not None} - {member_id}
            return False
        if member_id not in self.unheard:
            return False
        self.unheard.discard(member_id)
        return not self.unheard

    def left(self, member: Member) -> bool:
        """A member is gone; True if patterns may stand for more without it."""
        was_waited_for = self.unheard is not None and self._is_waited_for({}, member.member_id)
        self._named.pop(member.member_id, None)
        principal = self.principals.pop(member.member_id, None)
        if principal is None:
            return was_waited_for
        if principal not in self.principals.values():
            self._of.pop(principal, None)
        return was_waited_for or (member.regex is not None and self._is_shared(member.regex))

    def resolved_for(self, regex: str, visibility: Visibility | None) -> None:
        """A pattern was resolved for the one member that has it."""
        if visibility is not None:
            self._resolved[regex] = {visibility.principal: visibility.version}

    def subscribers(self, members: Mapping[str, Member]) -> Mapping[str, Subscribers]:
        """The subscribers of each pattern; empty without an authorizer."""
        found: dict[str, Subscribers] = {}
        if self.principals:
            for member in members.values():
                if member.regex is not None:
                    of_pattern = found.setdefault(member.regex, Subscribers())
                    principal = self.principals.get(member.member_id)
                    if principal is None:
                        of_pattern.are_all_heard = False
                    else:
                        of_pattern.principals.add(principal)
        return found

    def seen(
        self, regex: str, by: Subscribers | None, before: frozenset[str], matched: frozenset[str]
    ) -> frozenset[str]:
        """The topics, of those that match a pattern, that it stands for from now on; `before` has those up to now."""
        if by is None:
            return matched
        visible_topics = [self._of[principal] for principal in by.principals]
        self._resolved[regex] = {visibility.principal: visibility.version for visibility in visible_topics}
        if not by.are_all_heard:
            matched &= before
        return frozenset(name for name in matched if all(visibility.sees(name) for visibility in visible_topics))

    def forget(self, regex: str) -> None:
        """Nobody has the pattern any more."""
        self._resolved.pop(regex, None)
