"""The file of the audit log: private, bounded, and no line is lost where its disk takes none."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.config import parse_config
from broker.node.process import audit_file
from broker.node.process.audit_file import AuditFile, AuditFileLimits
from penstock.errors import ConfigError
from penstock.testing.layout import new_layout


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    one = logging.getLogger("penstock.audit")
    before = one.handlers[:], one.level
    one.setLevel(logging.INFO)
    yield one
    one.handlers[:] = before[0]
    one.setLevel(before[1])


def say(logger: logging.Logger, number: int) -> None:
    logger.info("%s", json.dumps({"outcome": "done", "number": number}))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Lines of the node's log."""
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_lines_are_json_with_time_and_node_and_only_the_nodes_user_reads_them(
    tmp_path: Path, logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.log"
    path.write_text("")
    path.chmod(0o644)
    file = AuditFile(str(path), 7)
    file.take(logger)
    say(logger, 1)
    say(logger, 1)  # two acts that are equal
    file.close()
    first, second = map(json.loads, path.read_text().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {"node": 7, "outcome": "done", "number": 1} and second["number"] == 1
    assert path.stat().st_mode & 0o777 == 0o600 and not errors(caplog)


def test_a_file_that_is_large_enough_is_kept_and_the_oldest_go(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), 0, AuditFileLimits(file_bytes=200))
    file.take(logger)
    for number in range(100):
        say(logger, number)
    file.close()
    files = sorted(tmp_path.iterdir(), key=lambda one: one.stat().st_mtime_ns)
    assert {one.name for one in files} == {"audit.log", *(f"audit.log.{n}" for n in range(1, audit_file.FILES))}
    assert all(one.stat().st_size <= 200 and one.stat().st_mode & 0o777 == 0o600 for one in files)
    kept = [number for n in (*range(audit_file.FILES - 1, 0, -1),) for number in numbers(tmp_path / f"audit.log.{n}")]
    assert [*kept, *numbers(path)] == list(range(100))[-len(kept) - len(numbers(path)) :]


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), 0)
    os.replace(path, tmp_path / "away")
    file.take(logger)
    say(logger, 1)
    file.close()
    assert numbers(path) == [1]


def test_a_line_that_the_disk_does_not_take_is_in_the_nodes_log(
    tmp_path: Path, logger: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bytes] = []

    def write(fd: int, line: bytes) -> int:
        taken.append(line)
        if len(taken) == 1:
            return len(line) // 2
        if len(taken) == 2:
            raise OSError(28, "No space left on device")
        return len(line)

    monkeypatch.setattr(audit_file.os, "write", write)
    file = AuditFile(str(tmp_path / "audit.log"), 7)
    file.take(logger)
    for number in (1, 2, 3):
        say(logger, number)
    file.close()
    lines = errors(caplog)
    assert [json.loads(line.partition("its line: ")[2])["node"] for line in lines] == [7, 7], (
        "as in the file, with time"
    )
    assert len(lines) == 2 and all("No space left on device" in line for line in lines)
    assert '"number": 1' in lines[0] and '"number": 2' in lines[1]
    assert taken[2].startswith(b"\n{") and json.loads(taken[2])["number"] == 3, "not at the end of half a line"


def test_a_disk_that_hangs_holds_up_nobody_and_its_lines_are_in_the_nodes_log(
    tmp_path: Path, logger: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def write(fd: int, line: bytes) -> int:
        hangs.set()
        goes_on.wait()
        return len(line)

    monkeypatch.setattr(audit_file.os, "write", write)
    file = AuditFile(str(tmp_path / "audit.log"), 0, AuditFileLimits(queued_lines=3, close_seconds=0.01))
    file.take(logger)
    say(logger, 0)
    assert hangs.wait(10)
    for number in range(1, 5):
        say(logger, number)
    assert [re.findall(r"number\": (\d)", line) for line in errors(caplog)] == [["4"]], "there is no room for it"
    file.close()
    lost = errors(caplog)[1:]
    assert [re.findall(r"number\": (\d)", line) for line in lost] == [["0"], ["1"], ["2"], ["3"]]
    assert all("had not taken the line when the node stopped" in line for line in lost)
    goes_on.set()


def test_no_line_begins_at_the_end_of_half_a_line_of_before(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "audit.log"
    path.write_text('{"number": 1}\n{"numb')
    file = AuditFile(str(path), 0)
    file.take(logger)
    say(logger, 2)
    say(logger, 3)
    file.close()
    first, half, *rest = path.read_text().splitlines()
    assert (first, half) == ('{"number": 1}', '{"numb') and [json.loads(line)["number"] for line in rest] == [2, 3]


@pytest.mark.parametrize("kind", ["pipe", "pipe that is read", "device"])
def test_what_is_no_file_is_refused_and_left_as_it_is(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reader = tmp_path / "audit.log", -1
    if kind == "device":
        path.symlink_to(os.devnull)
    else:
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if kind == "pipe that is read" else -1
    monkeypatch.setattr(audit_file.os, "fchmod", lambda *_: pytest.fail("the mode of a device is not ours"))
    given = new_layout(tmp_path / "node", 1, None).node_config(0)
    config = parse_config({**given, "audit.log.location": str(path)})
    for refused in (audit_file.check_audit_file, audit_file.audit_file):
        with pytest.raises(ConfigError, match=r"cannot be written \(it is no regular file\); name a file"):
            refused(config)
    if reader >= 0:
        os.close(reader)


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    given = new_layout(tmp_path, 1, None).node_config(0)
    config = parse_config({**given, "audit.log.location": str(tmp_path / "none" / "audit.log")})
    for refused in (audit_file.check_audit_file, audit_file.audit_file):
        with pytest.raises(
            ConfigError, match=r"audit\.log\.location = .*/none/audit\.log: cannot be written \(No such"
        ):
            refused(config)
    audit_file.check_audit_file(parse_config(given))
    assert audit_file.audit_file(parse_config(given)) is None


def test_a_file_that_can_be_written_is_not_made_by_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    given = new_layout(tmp_path / "node", 1, None).node_config(0)
    config = parse_config({**given, "audit.log.location": str(path)})
    audit_file.check_audit_file(config)
    assert not path.exists()
    path.write_text("")
    path.chmod(0o644)
    audit_file.check_audit_file(config)
    assert path.stat().st_mode & 0o777 == 0o644
    monkeypatch.setattr(audit_file.os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="Permission denied"):
        audit_file.check_audit_file(config)
