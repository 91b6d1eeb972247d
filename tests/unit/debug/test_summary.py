"""The trouble stands in the first lines, and a bundle from anybody breaks nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.debug.archive import Bundle
from penstock.debug.summary import summary


def lines(files: dict[str, Any], **index: Any) -> list[str]:
    given = {"parts": [], "penstock": "1.2.3", "python": "3.11.7", "platform": "Linux", "made_at_ms": 0, **index}
    return list(summary(Bundle(given, {path: json.dumps(one).encode() for path, one in files.items()})))


def test_what_is_wrong_comes_first_and_then_what_there_is() -> None:
    found = lines(
        {
            "cluster/describe.json": {
                "cluster_id": "abc",
                "controller_id": 1,
                "brokers": [{"node_id": 1}, {"node_id": 2, "fenced": True}],
            },
            "cluster/health.json": {
                "status": "degraded",
                "checks": [
                    {"name": "brokers", "status": "degraded", "summary": "2 is fenced"},
                    {"name": "disks", "status": "ok", "summary": "all have room"},
                ],
            },
            "nodes/1/check.json": {"node_id": 1, "version": "1.2.3", "state": "runs", "warnings": ["no rack"]},
        },
        parts=[{"path": "cluster/groups.json", "error": "timed out"}, {"path": "cluster/health.json", "error": ""}],
    )
    assert found[:8] == [
        "made 1970-01-01 00:00:00+00:00 by penstock 1.2.3, Python 3.11.7, Linux",
        "cluster abc: 2 brokers, fenced: 2; controller 1",
        "health: degraded",
        "  brokers (degraded): 2 is fenced",
        "node 1 (penstock 1.2.3): runs",
        "  warning: no rack",
        "missing: cluster/groups.json: timed out",
        found[7],
    ]
    assert [line.split()[1] for line in found[7:]] == [
        "cluster/describe.json",
        "cluster/health.json",
        "nodes/1/check.json",
    ]


@pytest.mark.parametrize(
    "document", [None, 5, [], {}, {"brokers": 3}, {"brokers": [1]}, {"checks": [1, {}]}, {"warnings": 1}]
)
def test_documents_of_other_shapes_break_nothing(document: Any) -> None:
    paths = ("cluster/describe.json", "cluster/health.json", "nodes/1/check.json")
    found = lines(dict.fromkeys(paths, document), made_at_ms=10**30)
    assert [line.split()[-1] for line in found[-3:]] == list(paths)
