"""A seal for small text files: a checksum over the whole file, so that a damaged number is not taken for another one.

    …                          the lines of a text file
    crc32c 0a1b2c3d            its last line: CRC-32C of every byte before this line, 8 lower-case hex digits

    {"leaderEpoch": 7, "crc32c": "0a1b2c3d"}
    the same in a file that is one JSON object: its last field, over every byte before `, "crc32c"`

The owner of each format decides which files must have a seal, and which older versions may come without. It must make
sure that a flipped bit in the seal's own name does not turn a sealed file into an unsealed one. `atomic_file.py` writes
the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from crc32c import crc32c

from penstock.errors import CorruptFileError

SEAL = "crc32c"
_SEAL_LINE = re.compile(rf"{SEAL} \S*")
_SEALED_JSON = re.compile(r'(?P<content>\{.*), "crc32c": "(?P<crc>[0-9a-f]{8})"\}\n?', re.DOTALL)


def seal(content: str) -> bytes:
    """The file's bytes: the content, which ends with a line feed, and its seal."""
    raw = content.encode()
    return raw + f"{SEAL} {crc32c(raw):08x}\n".encode()


def is_sealed(text: str) -> bool:
    """True if the last line has the form of a seal; its checksum is not verified."""
    return _SEAL_LINE.fullmatch(text.rstrip("\n").rpartition("\n")[2]) is not None


def unseal(path: str, text: str) -> str:
    """The content of a sealed file; CorruptFileError when it is not what was sealed."""
    content = text[: text.rfind("\n", 0, -1) + 1]
    if seal(content) != text.encode():
        raise CorruptFileError(path, len(content.encode()), f"the last line is not {SEAL} and the checksum of the file")
    return content


def seal_json(fields: Mapping[str, object]) -> bytes:
    """The bytes of a file that holds these fields, at least one, as a JSON object with a seal."""
    content = json.dumps(dict(fields))[:-1]
    return f'{content}, "{SEAL}": "{crc32c(content.encode()):08x}"}}\n'.encode()


def unseal_json(path: str, text: str) -> tuple[dict[str, Any], bool]:
    """The fields, and whether they were sealed; CorruptFileError when they are not what was sealed, or no object."""
    match = _SEALED_JSON.fullmatch(text)
    if match is not None:
        if f"{crc32c(match['content'].encode()):08x}" != match["crc"]:
            raise CorruptFileError(path, 0, f"{SEAL} {match['crc']} is not the checksum of the file")
        text = match["content"] + "}"
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptFileError(path, 0, "not a JSON object")
    return fields, match is not None
