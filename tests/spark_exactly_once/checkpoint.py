"""Spark's checkpoint of a query, from outside."""

from __future__ import annotations

from pathlib import Path


def last_batch(log: Path) -> int:
    """The last batch in one of Spark's logs, a directory with a file for each; -1 if there is none."""
    names = (path.name.split(".")[0] for path in log.glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def in_batch(checkpoint: Path) -> bool:
    """True if the driver died within a micro-batch."""
    return last_batch(checkpoint / "offsets") > last_batch(checkpoint / "commits")


def forget_last_commit(checkpoint: Path) -> None:
    """The query has committed its last micro-batch everywhere but in its checkpoint."""
    forget(checkpoint / "commits", last_batch(checkpoint / "commits"))


def forget(log: Path, batch: int) -> None:
    """The batch's entry in one of Spark's logs is gone, if there was one."""
    for name in (f"{batch}", f".{batch}.crc"):
        (log / name).unlink(missing_ok=True)
