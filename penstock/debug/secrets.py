"""Takes secrets out of text that goes into a bundle. Pure.

The commands whose output it has print none, and a node's configuration names files in their place. This is the second
lock: values whose names say that they are secret, private keys, tokens, and passwords in addresses, wherever they stand
in a log line or a file.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "(hidden)"
_SECRET: Final = r"pass(?:word|phrase|wd)|secret|token|(?:api|stored|server|salted|private)[_-]?key|salt|credential"
_NOT_SECRET: Final = r"(?:file|path|location|dir|type|mechanism|bytes|ms|s|count|total|url|uri|endpoint)"
"""The last words of names that say where a secret is, or how large, and not what it is."""
_NAMED: Final = re.compile(
    rf"""(?ix)
    (?P<name>(?:{_SECRET})s?(?:[._-](?!{_NOT_SECRET}\b)[a-z0-9]+){{0,4}}["']?[ \t]{{0,8}}[:=][ \t]{{0,8}})
    (?P<value>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\[[^\]\n]*\]|[^\s,;&}}\]]+)
    """
)
_PLAIN: Final = re.compile(r"""["']?(?:-?\d+(?:\.\d+)?|true|false|null|none|)["']?\Z""", re.IGNORECASE)
"""Numbers, and words that say whether there is a value, are shown."""
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_JWT: Final = re.compile(r"\beyJ[\w-]{8,2000}+\.[\w-]{8,}\.[\w-]*")
_USER_INFO: Final = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")


def without_secrets(text: str) -> str:
    """The text with `HIDDEN` in the place of each secret; valid JSON and TOML stay valid."""
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    text = _JWT.sub(HIDDEN, text)
    text = _USER_INFO.sub(rf"\1:{HIDDEN}", text)
    return _NAMED.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if _PLAIN.match(value):
        return found[0]
    quote = value[0] if value[0] in "\"'" else '"' if value[0] == "[" else ""
    return f"{name}{quote}{HIDDEN}{quote}"
