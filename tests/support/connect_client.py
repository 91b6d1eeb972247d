"""A program of Spark Connect that uses the format "penstock", and `ask`, which runs it.

    python -m tests.support.connect_client SERVER BOOTSTRAP TOPIC DIRECTORY [CODE]

The server is a URL sc://…, or local[1]: then the program starts one. It prints one JSON object. With CODE the server
has no Penstock of its own: the code sends it there, and has the name `spark`. This is a process of its own because one
process cannot have both kinds of Spark sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""The settings of a server that this program starts. The Java options are those of `penstock.spark.session`, which it
may not import."""
MISTAKE = "no option 'subscrib'; did you mean 'subscribe'?"
ROOT = Path(__file__).parents[2]


def ask(server: str, bootstrap: str, topic: str, place: Path, code: str = "", **environment: str) -> dict[str, Any]:
    """Runs the program, in an environment that is ready for Spark; its answer."""
    command = [sys.executable, "-m", "tests.support.connect_client", server, bootstrap, topic, str(place)]
    # SPARK_TESTING: a server that it starts takes a free port
    known = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_TESTING": "1", **environment}
    done = subprocess.run(
        [*command, *filter(None, [code])], cwd=place, env=known, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["session"] == "pyspark.sql.connect.session"
    return answer


def first_line(error: PySparkException) -> str:
    return str(error).splitlines()[0]


def main(server: str, bootstrap: str, topic: str, directory: Path, code: str) -> dict[str, Any]:
    builder = SparkSession.builder.remote(server)
    for key, value in SETTINGS.items() if server.startswith("local") else ():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    found: dict[str, Any] = {"session": type(spark).__module__}
    options = {"bootstrap": bootstrap, "topic": topic}

    def topic_frame() -> DataFrame:
        return spark.read.format("penstock").options(**options).load()

    if code:
        try:
            topic_frame().count()
        except PySparkException as error:
            found["before"] = error.getCondition()
        exec(code, {"spark": spark})
    rows = spark.range(3).selectExpr("string(id + 10) AS value")
    rows.write.format("penstock").options(**options).mode("append").save()
    found["read"] = sorted(int(row.value) for row in topic_frame().select("value").collect())
    try:
        spark.read.format("penstock").options(bootstrap=bootstrap, subscrib=topic).load().count()
    except PySparkException as error:
        found["mistake"] = first_line(error)
    stream = spark.readStream.format("penstock").options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("path", str(directory / "table"))
    try:
        query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        found["streamed"] = spark.read.parquet(str(directory / "table")).count()
    except PySparkException as error:
        found["stream_error"] = str(error)
    if not code:
        found["totals"] = [total(stream, options, directory / "totals") for _ in range(2)]
        found["after"] = sorted(int(row.value) for row in topic_frame().select("value").collect())
    spark.stop()
    return found


def total(stream: DataFrame, options: dict[str, str], checkpoint: Path) -> int:
    """Writes the count of the rows in update mode; the last batch that Spark knows of. It then forgets that batch."""

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        from penstock.spark import write_batch

        write_batch(frame, batch_id, name="totals", application="totals of connect", **options)

    writer = stream.groupBy().count().selectExpr("string(count + 1000) AS value").writeStream.outputMode("update")
    query = writer.foreachBatch(on_batch).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.start().awaitTermination()
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return last


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], Path(sys.argv[4]), "".join(sys.argv[5:]))))
