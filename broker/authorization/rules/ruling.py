"""The judgement over one request, and the shapes that most of them have.

A rule raises the error of a request that is refused as a whole. Otherwise it says what is left of the request, and
what becomes of the answer: refused parts get their error in their place, and what the caller may not see is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from broker.authorization.judge import Judge
from penstock.errors import ApiError
from penstock.messages.security.acls import CLUSTER_NAME, Need, Operation, ResourceType


class Ruling(NamedTuple):
    """`body` is None where nothing is left to be asked: then `amend` makes the answer of `answer`.

    `amend` is called when the answer is made, and the judge has the rights of that moment then."""

    body: Any
    amend: Callable[[Any], Any] | None = None
    answer: Any = None


Rule = Callable[[Judge, Any], Ruling]
"""Made of a judge and the body of a request."""


def free(judge: Judge, body: Any) -> Ruling:
    """Every caller that is connected may ask."""
    return Ruling(body)


def of_cluster(operation: Operation) -> Rule:
    """The request as a whole needs this right to the cluster."""

    def rule(judge: Judge, body: Any) -> Ruling:
        judge.require(operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return Ruling(body)

    return rule


def whole(needs: Callable[[Any], Iterable[Need]]) -> Rule:
    """The request as a whole needs all of these rights."""

    def rule(judge: Judge, body: Any) -> Ruling:
        for need in needs(body):
            judge.require(*need)
        return Ruling(body)

    return rule


def whole_until_answered(needs: Callable[[Any], Iterable[Need]]) -> Rule:
    """The rule of `whole` for a request that waits for others: it needs the rights when it is answered, too."""
    judged = whole(needs)

    def rule(judge: Judge, body: Any) -> Ruling:
        def amend(response: Any) -> Any:
            judged(judge, body)
            return response

        return judged(judge, body)._replace(amend=amend)

    return rule


def in_parts(
    field: str,
    answer: Any,
    need: Callable[[Any], Need],
    refused: Callable[[Any, ApiError], Any],
    answer_field: str = "",
) -> Rule:
    """Each element of `field` needs a right of its own. The answer has one result for each, in the same order;
    `answer` is one without any."""
    results = answer_field or field

    def rule(judge: Judge, body: Any) -> Ruling:
        errors = [judge.refusal(*need(part)) for part in getattr(body, field)]
        return without_refused(body, field, errors, answer, results, refused)

    return rule


def without_refused(
    body: Any,
    field: str,
    errors: Sequence[ApiError | None],
    answer: Any,
    answer_field: str,
    refused: Callable[[Any, ApiError], Any],
) -> Ruling:
    """The ruling for a request whose parts, in `field`, have these errors."""
    parts = getattr(body, field)
    if not any(error is not None for error in errors):
        return Ruling(body)
    kept = [part for part, error in zip(parts, errors, strict=True) if error is None]

    def amend(response: Any) -> Any:
        known: Iterator[Any] = iter(getattr(response, answer_field))
        merged: list[Any] = []
        for part, error in zip(parts, errors, strict=True):
            merged += [refused(part, error)] if error is not None else islice(known, 1)
        return replace(response, **{answer_field: (*merged, *known)})

    return Ruling(replace(body, **{field: tuple(kept)}) if kept else None, amend, answer)


def seen(field: str, is_seen: Callable[[Judge, Any], bool]) -> Rule:
    """The caller sees only these elements of the answer's `field`."""

    def rule(judge: Judge, body: Any) -> Ruling:
        def amend(response: Any) -> Any:
            return replace(response, **{field: tuple(one for one in getattr(response, field) if is_seen(judge, one))})

        return Ruling(body, amend)

    return rule


def of_partition(operation: Operation) -> Callable[[Any], Need]:
    """An element of `partitions` needs this right to its topic."""
    return lambda part: topic(operation, part.partition.topic)


def topic(operation: Operation, name: str) -> Need:
    return Need(operation, ResourceType.TOPIC, name)


def group(operation: Operation, name: str) -> Need:
    return Need(operation, ResourceType.GROUP, name)


def transactional_id(operation: Operation, name: str) -> Need:
    return Need(operation, ResourceType.TRANSACTIONAL_ID, name)
