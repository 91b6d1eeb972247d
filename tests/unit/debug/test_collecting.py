"""A part that fails, hangs or prints secrets keeps no other from the bundle, and the index says what happened."""

from __future__ import annotations

import sys
import threading
from itertools import count
from pathlib import Path

from penstock.debug.archive import Bundle, BundleWriter, read_bundle
from penstock.debug.collecting import Collector
from penstock.debug.parts import BundlePart

PYTHON = (sys.executable, "-S", "-E", "-c", "import sys; exec(sys.argv[1])")


def bundle_of(tmp_path: Path, *programs: str, timeout_s: float = 60) -> tuple[Bundle, list[str]]:
    """Programs in the place of commands, named a, b, …"""
    path, now_ms = tmp_path / "b.tar.gz", count(1_000, 10)
    with BundleWriter(path, "folder", 7) as writer:
        collector = Collector(writer, timeout_s, lambda: next(now_ms), command=PYTHON)
        parts = [BundlePart(chr(ord("a") + place), (program,)) for place, program in enumerate(programs)]
        found = collector.run(parts)
        collector.finish("there:1", 5)
    assert list(found) == [part.path for part in parts]
    return read_bundle(path), list(collector.missing)


def test_what_commands_print_is_there_and_what_fails_says_why(tmp_path: Path) -> None:
    read, missing = bundle_of(
        tmp_path,
        "print('one')",
        "print('a finding'); sys.exit(3)",
        "print('not a word', file=sys.stderr); sys.exit(1)",
        "sys.exit(2)",
        "",
        'print(\'{"error": {"message": "a sentence"}}\', file=sys.stderr); sys.exit(1)',
        "print('{\"password\": \"abc\"}'); print('password=abc', file=sys.stderr)",
    )
    assert read.files == {"a": b"one\n", "b": b"a finding\n", "g": b'{"password": "(hidden)"}\n'}
    assert missing == ["c: not a word", "d: exit code 2", "f: a sentence"]
    assert [part["exit_code"] for part in read.index["parts"]] == [0, 3, 1, 2, 0, 1, 0]
    assert (read.index["made_at_ms"], read.index["bootstrap"]) == (5, "there:1")
    assert read.index["packages"]["grpcio"]


def test_a_command_that_hangs_is_ended_and_what_it_printed_is_kept(tmp_path: Path) -> None:
    hangs = "print('so far', flush=True); import time; time.sleep(600)"
    read, missing = bundle_of(tmp_path, hangs, "print('other')", timeout_s=1)
    assert read.files == {"a": b"so far\n", "b": b"other\n"}
    assert missing == ["a: it did not end within 1 s"]


def test_a_look_at_a_disk_that_hangs_is_left_behind(tmp_path: Path) -> None:
    hangs = threading.Event()
    with BundleWriter(tmp_path / "b.tar.gz", "folder", 7) as writer:
        collector = Collector(writer, 0.01, lambda: 0)
        collector.take("one", lambda: str(hangs.wait(60)))
        collector.take("two", lambda: "there")
        collector.finish("", 5)
    hangs.set()
    assert read_bundle(tmp_path / "b.tar.gz").files.keys() <= {"two"}
    assert collector.missing[0] == "one: it did not end within 0.01 s"


def test_what_is_found_here_may_fail_too(tmp_path: Path) -> None:
    def fails() -> str:
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    with BundleWriter(tmp_path / "b.tar.gz", "folder", 7) as writer:
        collector = Collector(writer, 1, lambda: 0)
        collector.take("one", lambda: "token: abc")
        collector.take("two", fails)
        collector.lack("three", "nobody knows")
        collector.finish("", 5)
    assert read_bundle(tmp_path / "b.tar.gz").files == {"one": b"token: (hidden)"}
    assert list(collector.missing) == ["two: [Errno 13] Permission denied: '/etc/shadow'", "three: nobody knows"]
