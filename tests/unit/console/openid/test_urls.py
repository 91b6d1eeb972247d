"""Secrets go to addresses of TLS or of this machine alone. A page shows little of a provider."""

from __future__ import annotations

import pytest

from penstock.console.openid.urls import SHOWN_LETTERS_MAX, is_safe_url, provider_word


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example",
        "https://a.example:8443/x?y=z",
        "http://127.0.0.1:80/x",
        "http://localhost/",
        "http://[::1]:1/",
    ],
)
def test_an_address_of_tls_or_of_this_machine_is_safe(url: str) -> None:
    assert is_safe_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://a.example",
            "http://10.0.0.1/",
            "ftp://127.0.0.1/",
            "javascript:alert(1)",
            "https://",
            "",
            "//a.example",
        ),
        *(
            "https://user@a.example/",
            "https://a.example/#x",
            "https://a.example:99999/",
            "https://a.example/\n",
            "https://[::1",
        ),
    ],
)
def test_another_address_is_not(url: str) -> None:
    assert not is_safe_url(url)


def test_a_providers_word_is_short_and_has_no_controls() -> None:
    text = provider_word("a\r\nb\x1b[31m\u202e" + "c" * 1_000)
    assert text.startswith("a b") and "\x1b" not in text and "\u202e" not in text
    assert len(text) <= SHOWN_LETTERS_MAX + 20
