"""What `penstock dev` says of nodes that it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.dev import require_stopped
from penstock.errors import PenstockError


def log_path(index: int) -> Path:
    return Path(f"node-{index}/node.log")


def test_a_node_that_fails_while_it_is_stopped_is_named_with_its_log() -> None:
    require_stopped([0, 0, 0], log_path)
    with pytest.raises(
        PenstockError, match=r"node 1 ended with exit code 1 while it was stopped; see node-1/node\.log"
    ):
        require_stopped([0, 1, 0], log_path)
