"""A client reaches for the machine only in the modules that are its edges: a simulation replaces those."""

from __future__ import annotations

from pathlib import Path

from tests.support.seams import violations

CLIENT = Path(__file__).resolve().parents[3] / "penstock" / "client"
EDGES = {
    "background.py": "the thread of plain clients, and its end",
    "descriptors.py": "whether files may be opened",
    "environment.py": "makes the real environment",
    "forks.py": "what a fork does to clients",
    "options/variables.py": "the environment variables of the process",
    "processing/processing_metrics.py": "the page of a processor for Prometheus",
    "wire/channel.py": "gRPC",
    "wire/http2_channel.py": "the transport without gRPC: looks names up",
    "wire/login.py": "a user's password, and nonces",
    "wire/token_login.py": "a user's token: a file, and a thread for a function of the user's",
    "wire/tls_files.py": "certificates and keys, and the libraries that take them",
    "wire/http2_stream.py": "the transport without gRPC: the escapes of its texts",
}


def reaches() -> dict[str, list[str]]:
    """By module, what it takes from the machine."""
    found = {str(path.relative_to(CLIENT)): violations(path.read_text()) for path in CLIENT.rglob("*.py")}
    return {name: what for name, what in found.items() if what}


def test_no_module_of_the_client_but_its_edges_reaches_for_the_machine() -> None:
    assert {name: what for name, what in reaches().items() if name not in EDGES} == {}


def test_every_edge_is_one() -> None:
    assert EDGES.keys() <= reaches().keys()
