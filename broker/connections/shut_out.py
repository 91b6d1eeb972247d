"""Keeps networks out of a listener for a while: the kernel drops what they send to it. An edge, on Linux.

gRPC's library accepts by itself, and reads at once. A client that is cut connects anew, and what it sends then has been
taken before a look finds it. A filter on the listening socket (socket(7), SO_ATTACH_FILTER) is asked for each packet
that comes to it, so the network's connections are not even begun; those that stand have sockets of their own. A
connection that was cut gets the end of its stream, and no reset for what it sends afterwards. Where filters cannot be
attached nothing happens, and connections are cut as they come.

`program` is pure. Its instructions are those of classic BPF:

    the version of IP's header     4: its source is compared with each address
                                   6: the first 64 bits of its source are compared with each network

Not here: which networks (byte_watch.py).
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Collection, Iterable
from typing import Final

NETWORKS_MAX: Final = 200
"""Programs have 4,096 instructions at most."""
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_HEADER: Final = 0xFFF00000
"""SKF_NET_OFF: offsets from there are those in IP's header, wherever the packet begins."""
_SOURCE_4, _SOURCE_6 = 12, 8
_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _IF_EQUAL, _GO, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x05, 0x06
_TAKEN, _DROPPED = 0xFFFFFFFF, 0


def program(networks: Iterable[str]) -> bytes:
    """Drops what comes from these networks, as `penstock.addresses.network_of` writes them."""
    found = [ipaddress.ip_network(network) for network in networks]
    of_4: list[bytes] = [_step(_LOAD_WORD, _HEADER + _SOURCE_4)]
    of_6: list[bytes] = []
    for network in found:
        address = network.network_address.packed
        if network.version == 4:
            of_4 += [_if_equal(address[:4], 1), _step(_RETURN, _DROPPED)]
        else:
            of_6 += [_step(_LOAD_WORD, _HEADER + _SOURCE_6), _if_equal(address[:4], 3)]
            of_6 += [_step(_LOAD_WORD, _HEADER + _SOURCE_6 + 4), _if_equal(address[4:8], 1), _step(_RETURN, _DROPPED)]
    of_4.append(_step(_RETURN, _TAKEN))
    of_6.append(_step(_RETURN, _TAKEN))
    version = [_step(_LOAD_BYTE, _HEADER), _step(_SHIFT_RIGHT, 4), _step(_IF_EQUAL, 4, 1), _step(_GO, len(of_4))]
    return b"".join((*version, *of_4, *of_6))


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _if_equal(value: bytes, otherwise: int) -> bytes:
    """Goes on where the loaded word is equal; else skips `otherwise` steps."""
    return _step(_IF_EQUAL, int.from_bytes(value, "big"), 0, otherwise)


def shut_out(listening: socket.socket, networks: Collection[str]) -> None:
    """The socket takes nothing from these networks from now on, and from all others; OSError if it cannot be told."""
    if not networks:
        listening.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
        return
    code = program(list(networks)[:NETWORKS_MAX])
    kept = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HP", len(code) // struct.calcsize("=HBBI"), ctypes.addressof(kept))
    listening.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)
