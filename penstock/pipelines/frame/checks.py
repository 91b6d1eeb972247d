"""The checks of jobs before Spark starts: a topic exists, and is compacted where it must be; a table is there."""

from __future__ import annotations

from pathlib import Path

from penstock.client.admin.admin import Admin
from penstock.errors import ConfigError, UnknownTopicOrPartitionError

CLEANUP_POLICY = "cleanup.policy"


def check_topic(bootstrap: str, topic: str, *, compacted: bool | None = None) -> None:
    """ConfigError names the command that makes the topic what it must be; None if either will do."""
    with Admin(bootstrap) as admin:
        try:
            policy = str(admin.describe_topic_config(topic)[CLEANUP_POLICY].value)
        except UnknownTopicOrPartitionError:
            more = f" -c {CLEANUP_POLICY}=compact" if compacted else ""
            raise ConfigError(
                f"topic {topic!r} does not exist; create it first: penstock topics create {topic}{more}"
            ) from None
    if compacted and "compact" not in policy:
        raise ConfigError(
            f"topic {topic!r} has {CLEANUP_POLICY}={policy}, but the job writes a key again when it repeats a "
            f"micro-batch; set it: penstock configs alter {topic} --set {CLEANUP_POLICY}=compact"
        )
    if compacted is False and "compact" in policy:
        raise ConfigError(
            f"topic {topic!r} has {CLEANUP_POLICY}={policy}, which keeps only the last record of each key; set it: "
            f"penstock configs alter {topic} --set {CLEANUP_POLICY}=delete"
        )


def check_table(path: Path, made_by: str) -> None:
    """ConfigError if there is no Parquet file under the directory; `made_by` is the job that makes it, or empty."""
    if next(path.rglob("*.parquet"), None) is None:
        remedy = f"run the job {made_by} first" if made_by else "give the directory of a Parquet table"
        raise ConfigError(f"input: {path} has no Parquet files; {remedy}")
