"""The fields of a query or a form: urlencoded text from outside becomes checked values.

Whatever does not fit is one FieldError, which names the field and what it should be. Sizes are limited. Pure.
Not here: what a field means (the pages), and how the bytes arrive (app.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qsl

from penstock.errors import PenstockError
from penstock.written.numbers import INT64_MAX, parse_number

QUERY_BYTES_MAX: Final = 16 * 1024
FORM_BYTES_MAX: Final = 4 * 1024 * 1024
"""A record of 1 MiB, each byte of it written as three."""
FIELDS_MAX: Final = 200
SHOWN_LETTERS_MAX: Final = 64
_DECIMAL: Final = re.compile(r"[0-9]{1,16}(\.[0-9]{1,6})?")


class FieldError(PenstockError):
    """A field of a query or a form is not as it should be."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field[:SHOWN_LETTERS_MAX]}: {text}")
        self.field = field


class Fields:
    """The fields, each given once; an empty one counts as not given."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    @staticmethod
    def parsed(
        raw: bytes, known: Collection[str], bytes_max: int = QUERY_BYTES_MAX, *, others_pass: bool = False
    ) -> Fields:
        """The fields of urlencoded bytes; FieldError for one that comes twice, or is not among `known`: those of
        another program's answer are left out with `others_pass`."""
        if len(raw) > bytes_max:
            raise FieldError("fields", f"they have {len(raw)} bytes; at most {bytes_max} are taken")
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX, separator="&"
            )
        except UnicodeError:
            raise FieldError("fields", "they must be urlencoded UTF-8") from None
        except ValueError:
            raise FieldError("fields", f"at most {FIELDS_MAX} are taken") from None
        found: dict[str, str] = {}
        for name, value in pairs:
            if name not in known and others_pass:
                continue
            if name not in known:
                raise FieldError(name, f"is no field of this page; it has {', '.join(sorted(known)) or 'none'}")
            if name in found:
                raise FieldError(name, "is given twice")
            found[name] = value
        return Fields(found)

    def has(self, name: str) -> bool:
        """True if the field is given, and not empty."""
        return bool(self._values.get(name))

    def text(self, name: str, default: str | None = None) -> str:
        """The text of a field; without a default it must be given."""
        value = self._values.get(name, "")
        if not value and default is None:
            raise FieldError(name, "is missing")
        return value or default or ""

    def number(self, name: str, default: int | None = None, low: int = 0, high: int = INT64_MAX) -> int:
        """A whole number within limits; without a default it must be given."""
        if not self.has(name) and default is not None:
            return default
        text = self.text(name)
        digits = parse_number(text.removeprefix("-"), INT64_MAX)
        if digits is None:
            raise FieldError(name, f"must be a whole number, not {text[:SHOWN_LETTERS_MAX]!r}")
        number = -digits if text.startswith("-") else digits
        if not low <= number <= high:
            raise FieldError(name, f"must be from {low} to {high}, not {number}")
        return number

    def maybe_number(self, name: str, low: int = 0, high: int = INT64_MAX) -> int | None:
        """The number, or None for a field that is not given."""
        return self.number(name, None, low, high) if self.has(name) else None

    def maybe_decimal(self, name: str) -> float | None:
        """A number that may have a fraction; None for a field that is not given."""
        if not self.has(name):
            return None
        text = self.text(name)
        if not _DECIMAL.fullmatch(text):
            raise FieldError(name, f"must be a number like 12 or 0.5, not {text[:SHOWN_LETTERS_MAX]!r}")
        return float(text)

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """A word, of a few."""
        value = self.text(name, default)
        if value not in choices:
            raise FieldError(name, f"must be one of {', '.join(choices)}, not {value[:SHOWN_LETTERS_MAX]!r}")
        return value

    def flag(self, name: str) -> bool:
        """True for "yes"; a box that is not ticked is not sent."""
        return self.choice(name, ("yes", "no"), "no") == "yes"

    def as_pairs(self) -> tuple[tuple[str, str], ...]:
        """Every field that is given, for a form that sends them again."""
        return tuple((name, value) for name, value in self._values.items() if value)

    def __repr__(self) -> str:
        return f"Fields({', '.join(self._values)})"
