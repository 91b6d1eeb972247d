"""Asks a host that runs, at the control socket of its directory (broker/host/host_control.py)."""

from __future__ import annotations

import json
import socket
import tomllib
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, PenstockError

DEFAULT_DIRECTORY = "/var/lib/penstock/host"
ANSWER_BYTES_MAX = 1 << 20
TIMEOUT_S = 10.0


def ask_host(config: str, do: str, node: int | None = None) -> dict[str, Any]:
    """The answer to one request. ConfigError for a wrong file, PenstockError where no host answers or it refuses."""
    path = f"{host_directory(config)}/control"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(TIMEOUT_S)
            asking.connect(path)
            asking.sendall(json.dumps({"do": do, "node": node}).encode() + b"\n")
            answer = json.loads(_whole(asking))
    except PermissionError:
        raise PenstockError(f"{path}: is its owner's alone; run this as root, or as the user of the service") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it gave no answer"
        remedy = f"is `penstock host start --config {config}` running?"
        raise PenstockError(f"{path}: no host answers there ({why}); {remedy}") from None
    if "error" in answer:
        raise ConfigError(f"the host refuses: {answer['error']}")
    return dict(answer)


def host_directory(config: str) -> str:
    """The `directory` of [host] in the file; all else is read by the host itself."""
    try:
        found = tomllib.loads(Path(config).read_text(encoding="utf-8")).get("host", {})
    except OSError as error:
        raise ConfigError(f"{config}: cannot be read ({error.strerror}); give the host's file with --config") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{config}: not valid TOML ({error}); `penstock host check` says more") from None
    directory = found.get("directory", DEFAULT_DIRECTORY) if isinstance(found, dict) else None
    if not isinstance(directory, str):
        raise ConfigError(f"{config}: [host] directory must be a text; `penstock host check` says more")
    return directory.rstrip("/")


def _whole(asking: socket.socket) -> bytes:
    data = b""
    while len(data) < ANSWER_BYTES_MAX and (part := asking.recv(65_536)):
        data += part
    return data
