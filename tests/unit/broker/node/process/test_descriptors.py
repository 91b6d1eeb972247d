"""How descriptors are shared out, and the reserve for logs when connections have taken the others."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.node.process.descriptors import OPEN_MAX, plan_descriptors, raise_open_files_limit
from penstock.errors import ConfigError
from storage.disk.spare_descriptors import SpareDescriptors


def test_clients_may_have_a_quarter_of_the_descriptors_and_a_small_limit_is_told() -> None:
    plenty = plan_descriptors(65_536)
    assert (plenty.client_connections_max, plenty.node_connections_max, plenty.warning) == (16_384, 4_096, "")
    few = plan_descriptors(300)
    assert few.client_connections_max == 75 and "limit of open files is 300" in few.warning
    assert "LimitNOFILE" in few.warning


def test_a_limit_that_cannot_work_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"open files is 64: a node needs 128 at least; raise it: LimitNOFILE"):
        plan_descriptors(64)


def test_a_system_that_takes_less_than_it_tells_gives_what_macos_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []

    def takes(_which: int, limits: tuple[int, int]) -> None:
        if limits[0] > OPEN_MAX:
            raise ValueError("current limit exceeds maximum limit")
        taken.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", takes)
    raise_open_files_limit()
    assert taken == [(OPEN_MAX, resource.RLIM_INFINITY)]


FREE = 32


@contextmanager
def no_descriptor_left() -> Iterator[list[int]]:
    """Every descriptor of the process is taken; the list may be given back."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd")))  # a limit below those that are open would leave none even to reuse
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + FREE, limits[1]))
    taken: list[int] = []
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield taken
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_log_finds_a_descriptor_when_connections_have_taken_all_others(tmp_path: Path) -> None:
    spare = SpareDescriptors(2)
    spare.refill()
    path = tmp_path / "log"
    path.touch()
    with no_descriptor_left() as taken:
        first = spare.opened(lambda: os.open(path, os.O_RDONLY))
        second = spare.opened(lambda: os.open(path, os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            spare.opened(lambda: os.open(path, os.O_RDONLY))
        spare.refill()
        assert len(spare) == 0 and spare.used == 2, "there is nothing to refill it with"
        os.close(taken.pop())
        spare.refill()
        assert len(spare) == 1, "as far as there is any"
        os.close(first)
        os.close(second)
    spare.close()


def test_other_errors_do_not_touch_the_reserve(tmp_path: Path) -> None:
    spare = SpareDescriptors(1)
    spare.refill()
    with pytest.raises(FileNotFoundError):
        spare.opened(lambda: os.open(tmp_path / "none", os.O_RDONLY))
    assert len(spare) == 1 and spare.used == 0
    spare.close()
