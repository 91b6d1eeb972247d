"""The server side of `penstock metadata`: prints what a metadata log's directory holds, one JSON object a line.

Started by the launcher (`penstock/node.py`) as `metadata-dump|metadata-digest --request JSON`. A dump has a line of
type `record` for each record that makes the metadata, in the order of a snapshot, and at its end the line of type
`digest` that is all of a digest. Not here: reading (metadata_reader.py), what a user sees (`penstock/cli/files/`).
"""

from __future__ import annotations

import json
import signal
import sys

from broker.quorum.metadata_log import METADATA_PARTITION
from broker.quorum.metadata_reader import read_metadata
from metadata.image import shown_lines
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.plain_text import plain_json
from storage.disk.disk_errors import storage_error
from storage.disk.file_names import partition_directory
from storage.disk.file_system import FileSystem
from storage.tools.overlay import OverlayFileSystem


@dataclass(frozen=True, slots=True)
class MetadataToolRequest:
    """The request of the command line."""

    path: str
    at: int | None = None
    progress: bool = False


def main(action: str, request_json: str) -> int:
    """Runs one action; its exit code."""
    try:
        request = MetadataToolRequest(**json.loads(request_json))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{action}: --request: {error}; use the command `penstock metadata`") from error
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    fs = OverlayFileSystem()
    directory = _directory(fs, request.path)
    try:
        image = read_metadata(fs, directory, request.at)
    except OSError as error:
        raise storage_error("read", str(error.filename or directory), error) from error
    records = 0
    for line in shown_lines(image):
        records += 1
        if action == "metadata-dump":
            _write({"type": "record", "record": json.loads(line)})
    found = {"offset": image.offset, "epoch": image.epoch, "records": records, "sha256": image.digest()}
    _write({"type": "digest", "directory": directory, **found})
    sys.stdout.buffer.flush()
    return 0


def _directory(fs: FileSystem, path: str) -> str:
    """The metadata log's directory itself, or the one in a log dir."""
    name = partition_directory(METADATA_PARTITION)
    inside = f"{path.rstrip('/')}/{name}"
    if fs.is_directory(inside):
        return inside
    if fs.is_directory(path) and path.rstrip("/").endswith(name):
        return path.rstrip("/")
    raise ConfigError(f"{path}: there is no metadata log; give a node's metadata log dir, or the {name} in it")


def _write(row: dict[str, object]) -> None:
    sys.stdout.buffer.write(plain_json(json.dumps(row, ensure_ascii=False)).encode() + b"\n")
