"""A network that is shut out of a listener begins no connection there. All others do, and what stands goes on."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from ipaddress import ip_address

import pytest

from broker.connections.shut_out import NETWORKS_MAX, program, shut_out

SHORT_SECONDS = 0.2
linux = pytest.mark.skipif(sys.platform != "linux", reason="sockets have filters on Linux")


def is_taken(code: bytes, source: str) -> bool:
    """The program's answer for a packet from there: its steps, one after the other."""
    address = ip_address(source)
    header = bytes([address.version << 4]) + bytes(7 if address.version == 6 else 11) + address.packed + bytes(20)
    loaded, at = 0, 0
    while True:
        step, then, otherwise, value = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        if step in (0x30, 0x20):
            size = 1 if step == 0x30 else 4
            loaded = int.from_bytes(header[value - 0xFFF00000 :][:size], "big")
        elif step == 0x74:
            loaded >>= value
        elif step == 0x15:
            at += then if loaded == value else otherwise
        elif step == 0x05:
            at += value
        else:
            return bool(value)


def test_a_program_drops_its_networks_and_takes_all_others() -> None:
    code = program(["10.0.0.1", "2001:db8:0:1::/64", "192.0.2.7", "2001:db8:0:2::/64"])
    dropped = ["10.0.0.1", "192.0.2.7", "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"]
    taken = ["10.0.0.2", "11.0.0.1", "192.0.2.6", "2001:db8:0:3::1", "2001:db9:0:1::1", "::1"]
    assert [source for source in (*dropped, *taken) if is_taken(code, source)] == taken


def test_a_program_of_many_networks_is_short_enough() -> None:
    networks = [f"2001:db8:{number:x}::/64" for number in range(NETWORKS_MAX)]
    code = program(networks)
    assert len(code) // 8 <= 4_096
    assert not is_taken(code, f"2001:db8:{NETWORKS_MAX - 1:x}::1") and is_taken(code, "10.0.0.1")


def connects(address: tuple[str, int], source: str) -> socket.socket | None:
    one = socket.socket()
    one.settimeout(SHORT_SECONDS)
    one.bind((source, 0))
    try:
        one.connect(address)
    except TimeoutError:
        one.close()
        return None
    return one


@linux
def test_the_kernel_lets_no_connection_of_a_network_begin_until_it_is_let_in_again() -> None:
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = listening.getsockname()
        before = connects(address, "127.0.0.2")
        assert before is not None
        accepted = opened.enter_context(listening.accept()[0])
        opened.enter_context(before)
        shut_out(listening, ["127.0.0.2"])
        assert connects(address, "127.0.0.2") is None
        other = connects(address, "127.0.0.3")
        assert other is not None
        opened.enter_context(other)
        before.sendall(b"still here")
        assert accepted.recv(10) == b"still here"
        shut_out(listening, [])
        again = connects(address, "127.0.0.2")
        assert again is not None
        opened.enter_context(again)
