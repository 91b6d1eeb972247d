"""A node takes its file again: whole or not at all, with a line that says which, whatever the disk does."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable

import pytest

from broker.config.config import parse_config_file
from broker.config.config_variables import VARIABLE_PREFIX, variable_of
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.node.configuration.config_reload import ConfigReload
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ConfigRecord
from tests.support.files_in_memory import FilesInMemory
from tests.support.losing_fs import LosingFileSystem
from tests.support.virtual_time import run_virtual

PATH = "/etc/penstock/1.toml"
GOOD = """
node.id = 1
process.roles = "broker,controller"
listeners = "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193"
controller.quorum.voters = "1@127.0.0.1:9193"
log.dirs = "/nowhere/a"
log.retention.ms = 5
"""
SAYS = "SIGHUP: nothing was applied, and the node goes on as before: "


class Stage:
    """A node that runs with GOOD, and its file."""

    def __init__(self) -> None:
        self.dynamic = DynamicBrokerConfig(parse_config_file(PATH, GOOD.encode()))
        self.heard: list[NodeConfig] = []
        self.dynamic.listen(self.heard.append, "log.retention.ms", "log.retention.bytes")
        self.fs = LosingFileSystem()
        for path in ("/etc", "/etc/penstock"):
            self.fs.mkdir(path)
        self.files = FilesInMemory(self.fs)
        self.reload = ConfigReload(PATH, self.dynamic)
        self.serving = asyncio.create_task(self.reload.serve(self.files))
        self.write(GOOD)

    def write(self, text: str | bytes) -> None:
        if self.fs.exists(PATH):
            self.fs.unlink(PATH)
        fd = self.fs.open(PATH, create=True)
        self.fs.pwritev(fd, [text.encode() if isinstance(text, str) else text], 0)
        self.fs.close(fd)

    async def ask(self) -> None:
        self.reload.ask()
        await asyncio.sleep(1)

    @property
    def retention_ms(self) -> int:
        return self.dynamic.current.log_retention_ms


def staged(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        await story(stage)
        assert not stage.serving.done(), "it goes on"
        stage.serving.cancel()
        await asyncio.gather(stage.serving, return_exceptions=True)

    run_virtual(main())


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_changed_keys_count_at_once_and_one_line_says_which(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        stage.write(GOOD.replace("= 5", "= 6") + "log.retention.bytes = 7\n")
        await stage.ask()
        assert [(config.log_retention_ms, config.log_retention_bytes) for config in stage.heard] == [(6, 7)]
        await stage.ask()

    staged(story)
    assert caplog.messages == [
        "the file, read again, changes the configuration: log.retention.ms = 6 (was 5), log.retention.bytes = 7 "
        "(was -1)",
        f"SIGHUP: nothing has changed in {PATH}",
    ]


BAD: dict[str, tuple[str | bytes, str]] = {
    "a key that needs a restart": (GOOD + "num.io.threads = 9\n", f"{PATH}: num.io.threads changed: restart the node"),
    "a key for all brokers": (
        GOOD + "unclean.leader.election.enable = true\n",
        "with `penstock configs alter --broker",
    ),
    "another log dir": (GOOD.replace("nowhere/a", "nowhere/b"), f"{PATH}: log.dirs, metadata.log.dir changed: restart"),
    "a bad value": (GOOD + "log.retention.bytes = -2\n", f"{PATH}: log.retention.bytes = -2: out of range; must be"),
    "an unknown key": (GOOD + "log.retention.byte = 2\n", "unknown key"),
    "keys that do not go together": (
        GOOD + "log.roll.ms = 1\nlog.roll.jitter.ms = 2\n",
        "log.roll.jitter.ms = 2: above",
    ),
    "a level": (GOOD + 'logger.level = "loud"\n', 'logger.level = "loud": a level is one of debug'),
    "no TOML": (GOOD + "log.retention.bytes = \n", f"{PATH}: not valid TOML"),
    "a voter's id of 5,000 digits": (
        GOOD.replace('"1@127', f'"{"9" * 5_000}@h:1,1@127'),
        f"{PATH}: controller.quorum.voters = ",
    ),
    "a size of 5,000 digits": (GOOD + f'log.segment.bytes = "{"9" * 5_000}k"\n', "write it like 1073741824"),
    "a number that cannot be written": (GOOD + f"log.segment.bytes = 0x{'f' * 5_000}\n", "= a number of thousands of"),
    "half a file": (GOOD[: GOOD.index("listeners")], "listeners is not set and has no default"),
    "an empty file": ("", "is not set and has no default"),
    "no text": (b"\xff" + GOOD.encode(), f"{PATH}: not UTF-8 at byte 0"),
    "far too much": (b"#" * (2 << 20), f"{PATH}: larger than 1048576 bytes"),
}


@pytest.mark.parametrize("row", BAD)
def test_a_file_with_a_mistake_is_refused_whole_and_the_next_good_one_is_taken(
    row: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, says = BAD[row]

    async def story(stage: Stage) -> None:
        before = stage.dynamic.current
        stage.write(text.replace("= 5", "= 6") if isinstance(text, str) else text.replace(b"= 5", b"= 6"))
        await stage.ask()
        assert stage.dynamic.current is before and stage.dynamic.file is before and stage.heard == []
        (line,) = caplog.messages
        assert line.startswith(SAYS) and says in line and "\n" not in line
        stage.write(GOOD.replace("= 5", "= 8"))
        await stage.ask()
        assert stage.retention_ms == 8

    staged(story)


def test_a_file_that_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        stage.fs.unlink(PATH)
        await stage.ask()
        stage.fs.fail_on["read_file"] = errno.EIO
        stage.write(GOOD.replace("= 5", "= 6"))
        await stage.ask()
        assert stage.retention_ms == 5
        stage.fs.fail_on.clear()
        await stage.ask()
        assert stage.retention_ms == 6

    staged(story)
    assert caplog.messages[:2] == [
        f"{SAYS}{PATH}: no such configuration file; give an existing one with --config",
        f"{SAYS}{PATH}: cannot be read (Input/output error); check its owner and mode",
    ]


def test_a_disk_that_hangs_holds_up_only_the_reload_and_who_asks_meanwhile_gets_the_newest_file() -> None:
    async def story(stage: Stage) -> None:
        stage.files.answers.clear()
        for _ in range(5):
            await stage.ask()
        assert stage.reload.is_reading and stage.files.reads == 1
        stage.write(GOOD.replace("= 5", "= 6"))
        stage.files.answers.set()
        await asyncio.sleep(1)
        assert stage.retention_ms == 6 and stage.files.reads == 2 and not stage.reload.is_reading
        stage.files.answers.clear()
        await stage.ask()
        stage.serving.cancel()
        await asyncio.gather(stage.serving, return_exceptions=True)
        assert stage.reload.is_reading, "the process must not wait for that thread"
        stage.serving = asyncio.create_task(asyncio.sleep(1))

    staged(story)


@pytest.mark.parametrize("error", [ValueError("two\nlines"), OSError(errno.ENOENT, "cwd is gone"), KeyError("bug")])
def test_a_mistake_that_nobody_thought_of_is_one_line_and_the_next_file_is_taken(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> NodeConfig:
        raise error

    async def story(stage: Stage) -> None:
        stage.write(GOOD.replace("= 5", "= 6"))
        with monkeypatch.context() as patch:
            patch.setattr("broker.config.config.parse_config", fails)
            await stage.ask()
        (line,) = caplog.messages
        assert line.startswith(f"{SAYS}{PATH}: ") and "\n" not in line and stage.retention_ms == 5
        await stage.ask()
        assert stage.retention_ms == 6

    staged(story)


def test_a_part_that_fails_on_a_new_value_does_not_end_the_reload(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        def refuses_six(config: NodeConfig) -> None:
            if config.log_retention_ms == 6:
                raise RuntimeError("no six")

        stage.dynamic.listen(refuses_six, "log.retention.ms")
        stage.write(GOOD.replace("= 5", "= 6"))
        await stage.ask()
        says = f"SIGHUP: {PATH} was applied only in part: unexpected RuntimeError: no six; restart the node"
        assert caplog.messages == [says]
        stage.write(GOOD.replace("= 5", "= 7"))
        await stage.ask()
        assert stage.retention_ms == 7

    staged(story)


def test_a_value_that_the_metadata_overrides_is_said_to_stay(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(ConfigRecord("broker", "", "log.retention.ms", "9"))
        stage.dynamic.published(delta, delta.apply(0, 1))
        stage.write(GOOD.replace("= 5", "= 6") + "log.retention.bytes = 7\n")
        caplog.clear()
        await stage.ask()
        assert (stage.retention_ms, stage.dynamic.current.log_retention_bytes) == (9, 7)

    staged(story)
    assert caplog.messages == [
        "the file, read again, changes the configuration: log.retention.bytes = 7 (was -1)",
        "log.retention.ms: the metadata has another value, which stays in force",
    ]


def test_before_the_loop_runs_the_file_is_read_on_the_spot(tmp_path: object, caplog: pytest.LogCaptureFixture) -> None:
    path = f"{tmp_path}/node.toml"
    dynamic = DynamicBrokerConfig(parse_config_file(path, GOOD.encode()))
    reload = ConfigReload(path, dynamic)
    reload.now()
    with open(path, "w", encoding="utf-8") as file:
        file.write(GOOD.replace("= 5", "= 6"))
    reload.now()
    assert dynamic.current.log_retention_ms == dynamic.file.log_retention_ms == 6
    assert caplog.messages[0].startswith(f"{SAYS}{path}: no such configuration file")


CHANGED = "the file, read again, changes the configuration: log.retention.ms = 6 (was 604800000)"


@pytest.mark.parametrize(
    ("source", "said"), [("env:", "SIGHUP: nothing has changed in the environment"), (f"env:{PATH}", CHANGED)]
)
def test_variables_hold_over_a_file_that_is_read_again(
    source: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in os.environ if name.startswith(VARIABLE_PREFIX)]:  # of the tests themselves
        monkeypatch.delenv(name)
    given = parse_config_file(PATH, GOOD.replace("retention.ms", "retention.bytes").encode()).given
    for key, value in given.items():
        monkeypatch.setenv(variable_of(key), str(value))

    async def story() -> None:
        stage = Stage()
        stage.write("log.retention.ms = 6\nlog.retention.bytes = 1\n")
        reload = ConfigReload(source, DynamicBrokerConfig(parse_config_file("env:", b"")))
        serving = asyncio.create_task(reload.serve(stage.files))
        reload.ask()
        await asyncio.sleep(1)
        for task in (serving, stage.serving):
            task.cancel()

    caplog.set_level(logging.INFO)
    run_virtual(story())
    assert caplog.messages == [said]
