"""The page about going on after a stop, followed literally: its programs crash around a save, and run again."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Admin, Producer
from penstock.testing import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "resuming.md"
COUNT, AT_ONCE = 4_000, 500
CRASHES = """import os, sys
saves = 0
def crash(where):
    global saves
    saves += where == "before"
    if sys.argv[1:] == [where] and saves == 3:
        os._exit(9)
"""
"""Comes before each program: it ends without a word before or after its third save."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


@pytest.fixture
def programs(tmp_path: Path, cluster: Cluster) -> Path:
    """A folder with the page's programs, and a topic with records."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, text in blocks:
        text = text.replace('"127.0.0.1:9192"', f'"{cluster.bootstrap}"').replace("timeout_ms=1000", f"1000, {AT_ONCE}")
        text = re.sub(r"(kept\.save\(.*\))\n", r"crash('before'); \1; crash('after')\n", text)
        (tmp_path / name).write_text(CRASHES + text, encoding="utf-8")
    with Admin(cluster.bootstrap) as admin:
        if "orders" in admin.list_topics():
            admin.delete_topic("orders")
        admin.create_topic("orders", 3)
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("orders", [b"%d" % n for n in range(COUNT)], keys=[b"%d" % n for n in range(COUNT)])
    return tmp_path


def run_crashing(folder: Path, name: str, done: str) -> Path:
    """Runs the program until it has crashed before a save and after one, and then until all is done, which `done`
    counts."""
    output = folder / "out"
    for where in ("before", "after", "nowhere"):
        with open(output, "ab") as out:
            process = subprocess.Popen(
                [sys.executable, name, where], cwd=folder, stdout=out, stderr=subprocess.PIPE, text=True
            )
        try:
            if where != "nowhere":
                _, printed = process.communicate(timeout=60)
                assert process.returncode == 9, printed
                assert 0 < count(folder, output, done) < COUNT
                continue
            deadline = time.monotonic() + 60
            while count(folder, output, done) < COUNT and time.monotonic() < deadline:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.05)
        finally:
            process.kill()
            process.communicate()
    return output


def count(folder: Path, output: Path, done: str) -> int:
    if done == "lines":
        return len({*output.read_bytes().split(b"\n")} - {b""}) if output.exists() else 0
    with closing(sqlite3.connect(folder / "orders.db", timeout=60)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM orders").fetchone()[0])
        except sqlite3.OperationalError:  # not made yet
            return 0


def test_with_a_database_each_record_is_there_once_wherever_the_program_crashes(programs: Path) -> None:
    run_crashing(programs, "orders_to_sqlite.py", "rows")
    with closing(sqlite3.connect(programs / "orders.db")) as database:
        values = sorted(int(value) for (value,) in database.execute("SELECT value FROM orders"))
    assert values == list(range(COUNT))


def test_with_a_file_no_record_is_missing(programs: Path) -> None:
    output = run_crashing(programs, "orders_to_somewhere.py", "lines")
    lines = output.read_bytes().split()
    assert len(lines) // 2 >= COUNT + AT_ONCE, "what was done before the crash and not saved is done again"
    assert (programs / "orders.positions").exists() and not os.path.exists(programs / "orders.db")


def test_a_position_of_another_topic_of_the_name_is_told(programs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "begin_anew.py"], cwd=programs, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "topic 'orders' was deleted and created again" in done.stdout
