"""Promises about the real feed: hours from an archive to a topic, and on through bronze and silver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.pipelines import github_events
from examples.pipelines.github_events import FeedUnavailableError
from penstock.client.admin.admin import Admin
from penstock.pipelines.catalog import run_job
from penstock.testing import Cluster
from tests.support.github_archive import archive_events, archive_server, zipped
from tests.support.lake import read_topic

pytestmark = pytest.mark.spark

HOUR = datetime(2026, 1, 31, 9, tzinfo=UTC)
SILVER = """input = "{lake}/bronze"
output = "{lake}/silver"
dead_letter_topic = "github-dead"
id_column = "id"
time_column = "created_at"
[columns]
id = "string"
type = "string"
created_at = "timestamp"
actor = "struct<login: string>"
repo = "struct<name: string>"
"""


@pytest.mark.long  # unit tests have the feed, test_pipelines.py bronze and silver
def test_hours_of_an_archive_become_records_and_then_rows_each_event_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    hours = [archive_events(1, HOUR + timedelta(hours=number), 700) for number in range(2)]
    bad = [b"{cut", b'{"id": "9"}']
    files = {"2026-01-31-9.json.gz": zipped(hours[0]), "2026-01-31-10.json.gz": zipped(hours[1] + bad)}
    lake = tmp_path
    base = f'bootstrap = "{cluster.bootstrap}"\n'
    with archive_server(files) as url:
        feed = [f"--bootstrap={cluster.bootstrap}", "--topic=github", "--hour=2026-01-31T09:00:00Z", f"--url={url}"]
        sent = github_events.main([*feed, "--hours=2"])
        assert (sent["events"], sent["not_events"], sent["too_long"], sent["hours"]) == (1402, 2, 0, 2)
        again = github_events.main([*feed, "--hours=2", "--max-events=700"])  # the first hour, as after a crash
        assert again["events"] == 700
        with pytest.raises(FeedUnavailableError, match=r"2026-01-31-11\.json\.gz: the archive answers 404"):
            github_events.main([*feed, "--hours=3"])

    (lake / "bronze.toml").write_text(f'{base}topic = "github"\noutput = "{lake}/bronze"\n')
    (lake / "silver.toml").write_text(base + SILVER.format(lake=lake))
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("github-dead", 1)
    run_job("bronze", lake / "bronze.toml", spark=spark)
    silver = run_job("silver", lake / "silver.toml", spark=spark)
    assert silver["rows"] == 1400
    assert {letter.value for letter in read_topic(cluster.bootstrap, "github-dead")} == set(bad)
    rows = spark.read.parquet(f"{lake}/silver").where("repo.name = 'owner-3/name'").count()
    assert rows == sum(b'"owner-3/name"' in line for hour in hours for line in hour) > 0
