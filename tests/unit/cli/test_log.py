"""`penstock log`: the command, as a process where it shows an error, and how its rows are said to people."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.files.log_text import DumpText, RecoveryText, VerifyText
from storage.disk.checkpoint_file import write_offsets
from storage.disk.file_names import LOG_START_CHECKPOINT
from storage.disk.file_system import OsFileSystem
from tests.support import command_line
from tests.support.log_dirs import BATCH_BYTES, FIRST, SECOND, contents, cut, flip, make_log_dir, open_values
from tests.support.python_nursery import quick_python
from tests.support.storage import TP


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data")


def penstock(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in this process; its errors are not seen, because the process that it starts has them."""
    done = command_line.penstock("log", *arguments)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
    command = [quick_python(), "-c", program, "log", *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def rows(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_verify_exits_0_when_sound_and_3_when_a_start_has_something_to_do(data: Path) -> None:
    result = process("verify", data)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("2 logs, 20 batches, 20 records: sound; ")
    (data / "orders-0" / "x.cleaned").touch()
    result = penstock("verify", data, "--json")
    assert result.returncode == 3
    assert [row["type"] for row in rows(result)] == ["finding", "log", "log", "summary"]


def test_verify_exits_1_at_damage_and_names_it(data: Path) -> None:
    flip(data / "orders-0" / SECOND, BATCH_BYTES + 50)
    result = penstock("verify", data / "orders-0")
    assert result.returncode == 1
    assert (
        f"damage: {SECOND}, byte {BATCH_BYTES}, offset 8: the batch at offset 8 has a wrong checksum" in result.stdout
    )
    assert "damage in 1 place;" in result.stdout


@pytest.mark.parametrize("action", ["dump", "verify", "recover"])
def test_a_path_that_is_no_log_exits_2(tmp_path: Path, action: str) -> None:
    result = process(action, tmp_path)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith(f"penstock: {tmp_path}: neither a partition's directory nor a log dir")


def test_dump_prints_batches_in_columns_and_records_as_json(data: Path) -> None:
    lines = penstock("dump", data / "orders-0").stdout.splitlines()
    assert lines[0].split("\t")[:4] == ["file", "position", "base offset", "last offset"] and len(lines) == 21
    result = penstock("dump", data / "orders-0", "--records", "--from-offset", 9, "-n", 2, "--max-bytes", 3, "--json")
    found = rows(result)
    assert [(row["offset"], row["value"], row["value_bytes"]) for row in found] == [(9, "val", 8), (10, "val", 8)]


def test_a_dump_of_the_indexes_of_a_running_node_says_why_there_are_none(data: Path) -> None:
    for path in (data / "orders-0").glob("*index"):
        path.unlink()
    result = penstock("dump", data / "orders-0", "--index")
    assert result.returncode == 0
    assert result.stdout.startswith(f"{FIRST} has no index files: they are written when the segment is rolled")


def test_two_things_cannot_be_dumped_at_once(data: Path) -> None:
    result = penstock("dump", data, "--index", "--epochs")
    assert result.returncode == 2 and "--index and --epochs exclude each other" in result.stderr


def test_recover_is_refused_while_a_node_has_the_dir(data: Path) -> None:
    fs = OsFileSystem()
    lock = fs.lock(str(data / ".lock"))
    try:
        result = process("recover", data)
    finally:
        fs.close(lock)
    assert result.returncode == 2 and "in use by another process" in result.stderr


def test_records_are_lost_only_after_a_yes(data: Path) -> None:
    cut(data / "orders-0" / SECOND, 3 * BATCH_BYTES + 5)
    assert penstock("recover", data).returncode == 0, "a start after a clean stop does not look there"
    before = contents(data)
    asked = penstock("recover", data, "--truncate-at-damage")
    assert asked.returncode == 2 and "add --yes" in asked.stderr
    dry = penstock("recover", data, "--truncate-at-damage", "--dry-run")
    assert dry.returncode == 0 and "10 offsets, 10 to 19, are lost; 6 records of them can be read" in dry.stdout
    assert contents(data) == before
    assert penstock("recover", data, "--truncate-at-damage", "--yes", "--json").returncode == 0
    assert penstock("verify", data).returncode == 0
    assert open_values(data) == [b"value-%02d" % n for n in range(10)]


def test_nobody_is_asked_where_only_deleted_records_are_damaged(data: Path) -> None:
    write_offsets(OsFileSystem(), str(data / LOG_START_CHECKPOINT), {TP: 10})
    flip(data / "orders-0" / SECOND, BATCH_BYTES + 50)
    result = process("recover", data, "--truncate-at-damage")
    assert (result.returncode, result.stderr) == (0, "")
    assert "below the log start 10: the files will begin at 9" in result.stdout
    assert penstock("verify", data).returncode == 0
    assert open_values(data) == [b"value-%02d" % n for n in range(10, 20)]


# -- words -------------------------------------------------------------------------------------------------------------


def test_bytes_are_text_or_hex_and_never_break_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DumpText(tmp_path)
    row = {"type": "record", "offset": 1, "timestamp_ms": 2, "value": "a\tb\n"}
    text.row(row | {"key": None, "headers": [{"name": "h", "value_base64": "/wA="}]})
    text.row(row | {"key_base64": "/wA=", "key_bytes": 9})
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1\t2\tnull\ta\\tb\\n\th=0xff00",
        "1\t2\t0xff00… (9 bytes)\ta\\tb\\n\t",
    ]


def test_what_a_producer_has_not_is_a_dash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"type": "producer", "producer_id": 7, "epoch": 3, "last_append_ms": 1, "batches": []}
    DumpText(tmp_path).row(row | {"transaction_start_offset": 12, "coordinator_epoch": None})
    assert capsys.readouterr().out.splitlines()[1] == "7\t3\t1\t12\t-\t"


def test_a_remedy_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = VerifyText(tmp_path)
    for offset in (1, 2):
        row = {"type": "finding", "severity": "damage", "file": f"{tmp_path}/{FIRST}", "what": "bad", "remedy": "do"}
        text.row(row | {"position": 0, "offset": offset})
    assert capsys.readouterr().out.splitlines() == [
        f"damage: {FIRST}, byte 0, offset 1: bad",
        "    do",
        f"damage: {FIRST}, byte 0, offset 2: bad",
    ]


def test_a_dry_run_says_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = RecoveryText(tmp_path, dry_run=True)
    text.row({"type": "change", "action": "cut", "file": f"{tmp_path}/{FIRST}", "bytes": 7})
    assert capsys.readouterr().out == f"would have cut 7 bytes off the end of {FIRST}\n"


def test_a_recovery_says_what_it_did_not_look_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"type": "summary", "logs": 1, "refused": 0, "changes": 0, "dry_run": False}
    RecoveryText(tmp_path, dry_run=False).row(row | {"read_bytes": 1, "seconds": 1.0, "mb_per_s": 1.0})
    assert capsys.readouterr().out.splitlines()[1:] == [
        "checked from the recovery points on; `penstock log verify` checks everything"
    ]
