"""Compares the replicas of a stopped cluster byte by byte, as they stand in its log dirs.

The bytes of a partition are its segments' `.log` files joined in the order of their names (the base offset), up to the
end of the last whole batch. Replicas may roll segments at different places, but their joined bytes must be equal. A
node may have several log dirs; a partition is in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.record.batch import iter_headers


def differences(nodes: Sequence[Sequence[Path]], topic: str, partitions: int) -> list[str]:
    """Says of each replica that differs from the first where it does. `nodes[i]` are a node's log dirs."""
    found: list[str] = []
    for partition in range(partitions):
        name = f"{topic}-{partition}"
        first, *others = [log_bytes(_replica(log_dirs, name)) for log_dirs in nodes]
        for index, other in enumerate(others, 1):
            if other != first:
                at = next((i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), None)
                where = f"at byte {at}" if at is not None else "in length only"
                found.append(f"{name}: {len(first)} bytes on node 0, {len(other)} on node {index}, different {where}")
    return found


def log_bytes(partition_directory: Path) -> bytes:
    """Everything in one replica, up to its log end."""
    content = b"".join(path.read_bytes() for path in sorted(partition_directory.glob("*.log")))
    end = 0
    for position, header in iter_headers(content):
        end = position + header.size_bytes
    return content[:end]


def _replica(log_dirs: Sequence[Path], name: str) -> Path:
    """The partition's directory on a node; one that does not exist, and so counts as empty, if the node has none."""
    return next((path / name for path in log_dirs if (path / name).is_dir()), log_dirs[0] / name)
