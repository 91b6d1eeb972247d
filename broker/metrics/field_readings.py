"""Readings of statistics records, from the metrics that their fields name (`penstock/metric_fields.py`).

In the order of the fields. Readings that are computed of several numbers have functions elsewhere in this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from broker.metrics.metrics import Reading
from penstock.metric_fields import INNER, METRIC

Labels = tuple[tuple[str, str], ...]
Row = tuple[Labels, Any]
"""A statistics record, and the labels of all its readings."""
Shown = tuple[str, str, bool, Callable[[Any], float], Labels]
"""A metric of a class: name, help, counter or not, its number in a record, and labels of its own."""


def record_readings(found: Any) -> Iterator[Reading]:
    """The metrics of one record."""
    return _read(type(found), [((), found)])


def labelled(label: str, found: Mapping[str, Any]) -> Iterator[Reading]:
    """The metrics of several records of one class, each with the name that it has here."""
    rows = [(((label, name),), row) for name, row in found.items()]
    return _read(type(rows[0][1]), rows) if rows else iter(())


def _read(kind: type, rows: Collection[Row]) -> Iterator[Reading]:
    for family in _families(kind):
        for labels, row in rows:
            for name, help_text, is_counter, of, own_labels in family:
                yield Reading(name, help_text, of(row), is_counter, labels + own_labels)


@cache
def _families(kind: type) -> tuple[tuple[Shown, ...], ...]:
    """The metrics of a class, those of one name together."""
    return tuple(tuple(family) for _, family in groupby(_fields(kind), key=itemgetter(0)))


def _fields(kind: type, path: str = "") -> Iterator[Shown]:
    for field in fields(kind):
        if INNER in field.metadata:
            yield from _fields(field.metadata[INNER], f"{path}{field.name}.")
        elif METRIC in field.metadata:
            name, help_text, is_counter, of, labels = field.metadata[METRIC]
            yield name, help_text, is_counter, _getter(attrgetter(path + field.name), of), labels


def _getter(get: Callable[[Any], Any], of: Callable[[Any], float] | None) -> Callable[[Any], float]:
    return get if of is None else lambda record: of(get(record))
