"""Asks the node of this container whether it is ready: `penstock-probe [readyz|livez]`, for HEALTHCHECK and Compose.

Exit code 0 for 200, 1 for every other answer or none, with the first condition that does not hold. An orchestrator that
asks over HTTP needs no process here: this one is for those that can only run a command. It imports little, because it
runs every few seconds. TLS is not verified: the node of this container is asked, and it tells no secret.
"""

from __future__ import annotations

import os
import socket
import sys

TIMEOUT_S = 5.0
DEFAULT = "0.0.0.0:9404"
ANSWER_BYTES_MAX = 65_536


def main(arguments: list[str], environ: dict[str, str]) -> int:
    page = arguments[0] if arguments else "readyz"
    host, _, port = environ.get("PENSTOCK_METRICS_LISTENER", DEFAULT).rpartition(":")
    try:
        answer = ask(loopback_of(host), int(port), page, is_tls="METRICS:SSL" in protocols(environ))
    except (OSError, ValueError) as error:
        sys.stdout.write(f"no answer from {host}:{port}: {error}\n")
        return 1
    head, _, body = answer.partition("\r\n\r\n")
    if head.partition(" ")[2].startswith("200 "):
        return 0
    missing = [line for line in body.splitlines() if '"ok": false' in line]
    sys.stdout.write((missing[0] if missing else head.partition("\r\n")[0]) + "\n")
    return 1


def protocols(environ: dict[str, str]) -> list[str]:
    """The entries of the node's listener.security.protocol.map."""
    return [entry.strip() for entry in environ.get("PENSTOCK_LISTENER_SECURITY_PROTOCOL_MAP", "").split(",")]


def loopback_of(host: str) -> str:
    """The address by which this machine reaches what listens there."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "::1", "": "127.0.0.1"}.get(host, host.strip("[]"))


def ask(host: str, port: int, page: str, *, is_tls: bool) -> str:
    """The whole answer."""
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as plain:
        connection = _with_tls(plain) if is_tls else plain
        connection.sendall(f"GET /{page} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while (part := connection.recv(4096)) and len(answer) < ANSWER_BYTES_MAX:
            answer += part
        return answer.decode("utf-8", "replace")


def _with_tls(plain: socket.socket) -> socket.socket:
    import ssl  # takes as long as all the rest

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
