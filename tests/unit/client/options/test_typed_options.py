"""Type checkers and `help()` know every option, from the table that also checks them, and every call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock import (
    Admin,
    AsyncAdmin,
    AsyncAtomicBatches,
    AsyncConsumer,
    AsyncProducer,
    AtomicBatches,
    Consumer,
    Producer,
)
from penstock.client.options import typed_options
from penstock.client.options.config import AdminConfig, ConsumerConfig, ProducerConfig
from penstock.client.options_source import typed_options as made_anew
from penstock.config_keys import keys_of

FACES = (
    (Producer, ProducerConfig),
    (AsyncProducer, ProducerConfig),
    (AtomicBatches, ProducerConfig),
    (AsyncAtomicBatches, ProducerConfig),
    (Consumer, ConsumerConfig),
    (AsyncConsumer, ConsumerConfig),
    (Admin, AdminConfig),
    (AsyncAdmin, AdminConfig),
)
PROGRAM = """
import os
from typing import Any
from penstock import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer

Producer("h:1", linger_ms=5, acks="all", compression_type="zstd")
Producer("h:1", liger_ms=5)
AsyncProducer("h:1", linger_ms="5")
Producer("h:1", compression_type="zst")
Consumer("h:1", acks=1)
AsyncConsumer("h:1", auto_offset_reset="first")
Admin("h:1", group_id="g")
known_later: dict[str, Any] = dict(os.environ)
Producer("h:1", **known_later)
Consumer("h:1").subscribe(7)
from penstock import KafkaProducer
from penstock import BulkFuture, RecordFuture
def told(future: RecordFuture) -> None:
    future.get()
admin = Admin("h:1")
admin.create_topic("t", 3, config={"retention.ms": 5}).partition_count.bit_count()
admin.create_topic("t", replicas=3)
admin.create_topic(7)
admin.list_topics().bit_count()
from penstock import AsyncAtomicBatches, AtomicBatches
producer = Producer("h:1")
producer.send("t", b"v", key="k")
producer.send_many("t", [b"v"]).bit_count()
with producer.transaction() as block:
    block.send("t", b"v", headers={"a": b"b"}).result(1).offset.bit_count()
    block.send("t", b"v", partition="0")
    block.send_many("t", [b"v"], "keys", "0")
writer = AtomicBatches("h:1").begin("app", 1, run="r")
if writer is not None:
    writer.send("t", b"v").result(1).offset.bit_count()
    writer.send("t", b"v", timestamp_ms="0")
    writer.identity.epoch.bit_count()
    writer.flush("1")
AtomicBatches("h:1").begin("app", 1, is_new=True)
async def story() -> None:
    async with AsyncProducer("h:1").transaction() as block:
        (await block.send("t", b"v")).result(1).offset.bit_count()
        await block.send("t", 7)
    writer = await AsyncAtomicBatches("h:1").begin("app", 1)
    if writer is not None:
        (await writer.send_many("t", [b"v"])).bit_count()
        await writer.abort("1")
"""
WRONG_LINES = [7, 8, 9, 10, 11, 12, 15, 16, 19, 22, 23, 24, 27, 28, 31, 32, 36, 38, 39, 43, 46, 47]


def test_the_typed_options_are_those_of_the_table() -> None:
    text = Path(typed_options.__file__).read_text(encoding="utf-8")
    assert text == made_anew(), "run python -m penstock.client.options_source"


def test_help_shows_every_option_with_its_default_and_its_meaning() -> None:
    for face, config in FACES:
        words = " ".join((face.__doc__ or "").split())
        for key in keys_of(config).values():
            assert f" {key.name} = {key.default!r}" in words
            assert " ".join(key.doc.split()) in words


@pytest.mark.long  # mypy checks each use of an option in this repository; here it must find wrong ones
def test_mypy_finds_the_options_and_names_that_are_wrong(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", program]
    root = Path(typed_options.__file__).resolve().parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in found] == WRONG_LINES, done.stdout + done.stderr
    assert 'Unexpected keyword argument "liger_ms"' in found[0]
