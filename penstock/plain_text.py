"""Text from outside, made fit for a terminal and for a line of a log: it steers no terminal, and breaks no line.

Names, errors and addresses come from clients, servers and files. Some characters in them do more than show a letter:
control characters (C0, DEL, C1) move the cursor, set the window's title, or answer as if somebody had typed; line
separators begin a line that looks like another one; the controls of bidirectional text make letters trade places.
They are written as escapes here, as Python writes them. Lone surrogates, which no encoding has, are, too.

The command line, the node's log and the audit log use these functions and no others. Not here: records, whose bytes
`penstock consume` prints as they are, as Kafka's console consumer does.
"""

from __future__ import annotations

import json
import re
from typing import Final

_OTHERS: Final = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_STEERING: Final = re.compile(f"[\x00-\x1f{_OTHERS}]")
_BUT_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_OTHERS}]")
_IN_JSON: Final = re.compile(f"[{_OTHERS}]")


def one_line(text: object) -> str:
    """The text of the object, on one line."""
    return _STEERING.sub(_escape, str(text))


def plain_lines(text: str) -> str:
    """The text with its line breaks and tabs, and with every other such character as an escape."""
    return _BUT_LINES.sub(_escape, text)


def plain_json(document: str) -> str:
    """A JSON document that means the same. `json.dumps` has escaped C0 in strings, and the others are escaped here."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def json_line(value: object) -> str:
    """The value as a JSON document, and the end of its line; with escapes for letters that an encoding may lack."""
    return plain_json(json.dumps(value)) + "\n"


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
