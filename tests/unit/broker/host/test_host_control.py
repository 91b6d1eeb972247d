"""The control socket: one request, one answer, bounded; a wrong request changes nothing."""

from __future__ import annotations

import json
import os
import random
import selectors
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.host.host_control import CONNECTIONS_MAX, REQUEST_BYTES_MAX, SECONDS_MAX, HostControl, answered
from penstock.errors import ConfigError


def answer(do: str, node: int | None) -> dict[str, object]:
    if node == 99:
        raise ValueError("no such node")
    return {"did": do, "node": node}


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "Expecting"),
        (b"[]", "must be one of"),
        (b'{"do": "format"}', "must be one of"),
        (b'{"do": "stop", "node": "1"}', "whole number"),
        (b'{"do": "stop", "node": true}', "whole number"),
        (b'{"do": "stop", "node": 99}', "no such node"),
        (b"[" * 5_000, ""),
        (b"\xff\xfe", ""),
    ],
)
def test_a_wrong_request_is_answered_with_an_error(data: bytes, word: str) -> None:
    assert word in str(answered(data, answer)["error"])


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_are_answered(seed: int) -> None:
    rng = random.Random(seed)
    data = bytes(rng.choice(b'{}[]":,0123456789doestpnrwk \x00\xff') for _ in range(rng.randrange(200)))
    assert answered(data, answer)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[tuple[HostControl, Path, selectors.BaseSelector]]:
    with selectors.DefaultSelector() as selector:
        path = tmp_path / "control"
        made = HostControl(str(path), selector)
        yield made, path, selector
        made.close()
        assert not path.exists()


def connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(str(path))
    made.settimeout(10)
    return made


def readable(selector: selectors.BaseSelector) -> set[int]:
    return {key.fd for key, _ in selector.select(10)}


def test_a_request_is_answered_and_its_number_may_be_anothers(
    control: tuple[HostControl, Path, selectors.BaseSelector],
) -> None:
    host, path, selector = control
    for node in range(20):  # each connection has the number of the one before it
        with connected(path) as asking:
            assert readable(selector) == {host.listening.fileno()}
            host.came(0.0)
            asking.sendall(json.dumps({"do": "restart", "node": node}).encode())
            (descriptor,) = readable(selector)
            host.answer(descriptor, answer)
            assert json.loads(asking.recv(1_000)) == {"did": "restart", "node": node}
        assert not host.open


def test_the_file_is_its_owners_alone(control: tuple[HostControl, Path, selectors.BaseSelector]) -> None:
    assert stat.S_IMODE(os.stat(control[1]).st_mode) == 0o600


def test_who_says_nothing_goes_and_the_oldest_goes_first(
    control: tuple[HostControl, Path, selectors.BaseSelector],
) -> None:
    host, path, _ = control
    waiting = []
    for at in range(CONNECTIONS_MAX + 3):
        waiting.append(connected(path))
        host.came(float(at) / 100)
    assert len(host.open) == CONNECTIONS_MAX
    assert [one.recv(1) for one in waiting[:3]] == [b"", b"", b""], "closed"
    host.expire(SECONDS_MAX + 1)
    assert not host.open
    for one in waiting:
        one.close()


def test_a_request_that_is_too_large_is_cut_and_refused(
    control: tuple[HostControl, Path, selectors.BaseSelector],
) -> None:
    host, path, _ = control
    with connected(path) as asking:
        host.came(0.0)
        asking.sendall(b'{"do": "status", "more": "' + b"x" * (2 * REQUEST_BYTES_MAX))
        (descriptor,) = host.open
        host.answer(descriptor, answer)
        with_error = b""
        try:
            with_error = asking.recv(1_000)
        except ConnectionResetError:
            return
        assert b"error" in with_error


def test_two_hosts_do_not_share_a_directory_and_a_killed_one_is_no_bar(tmp_path: Path) -> None:
    path = str(tmp_path / "control")
    with selectors.DefaultSelector() as selector:
        first = HostControl(path, selector)
        with pytest.raises(ConfigError, match="another `penstock host start` runs there"):
            HostControl(path, selector)
        first.close()
        Path(path).touch()  # left by one that was killed
        HostControl(path, selector).close()
        with pytest.raises(ConfigError, match="cannot be made"):
            HostControl(str(tmp_path / "none" / "control"), selector)
