"""The checks of jobs before Spark starts: a topic exists, and is compacted where it must be; a table is there.

A user of least rights may not describe the configuration of a topic. Then whether it is compacted is not checked.
"""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.client.admin.admin import Admin
from penstock.errors import ConfigError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.parquet_table.table_spec import PENDING

CLEANUP_POLICY = "cleanup.policy"


_log = logging.getLogger(__name__)


def check_topic(bootstrap: str, topic: str, run: RunConf, *, compacted: bool | None = None) -> None:
    """ConfigError names the command that makes the topic what it must be; None if either will do."""
    with Admin(bootstrap, **run.admin_options) as admin:
        try:
            admin.describe_topic(topic)
        except UnknownTopicOrPartitionError:
            more = f" -c {CLEANUP_POLICY}=compact" if compacted else ""
            raise ConfigError(
                f"topic {topic!r} does not exist; create it first: penstock topics create {topic}{more}"
            ) from None
        policy = None if compacted is None else _policy(admin, topic)
    if policy is None:
        return
    if compacted and "compact" not in policy:
        raise ConfigError(
            f"topic {topic!r} has {CLEANUP_POLICY}={policy}, but with semantics = 'at-least-once' the job writes "
            "a key again when it repeats a micro-batch; leave that out, or set it: "
            f"penstock configs alter {topic} --set {CLEANUP_POLICY}=compact"
        )
    if not compacted and "compact" in policy:
        raise ConfigError(
            f"topic {topic!r} has {CLEANUP_POLICY}={policy}, which keeps only the last record of each key; set it: "
            f"penstock configs alter {topic} --set {CLEANUP_POLICY}=delete"
        )


def _policy(admin: Admin, topic: str) -> str | None:
    """The topic's cleanup policy; None where this user may not describe it."""
    try:
        return str(admin.describe_topic_config(topic)[CLEANUP_POLICY].value)
    except TopicAuthorizationFailedError as error:
        _log.warning("%s of topic %s is not checked: %s", CLEANUP_POLICY, topic, error)
        return None


def check_table(path: Path, made_by: str) -> None:
    """ConfigError if there is no Parquet file under the directory; `made_by` is the job that makes it, or empty."""
    if not any(PENDING not in file.parts for file in path.rglob("*.parquet")):
        remedy = f"run the job {made_by} first" if made_by else "give the directory of a Parquet table"
        raise ConfigError(f"input: {path} has no Parquet files; {remedy}")
