"""Addresses of a provider to which secrets may go, and its words as a page may show them. Pure, and without httpx."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from penstock.addresses import is_loopback
from penstock.plain_text import plain_lines

SHOWN_LETTERS_MAX: Final = 200


def is_safe_url(url: str) -> bool:
    """True for an address to which tokens and secrets may go: TLS, or this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    is_known = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    return is_known and bool(host) and not parts.fragment and parts.username is None and url.isprintable()


def provider_word(text: str) -> str:
    """A provider's word, as a page may show it."""
    return plain_lines(" ".join(text.split())[:SHOWN_LETTERS_MAX])
