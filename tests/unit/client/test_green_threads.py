"""gevent and eventlet with patched threads are refused at once, by every client; without them, all goes on."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer
from penstock.errors import GreenThreadsError

CLIENTS = (Producer, Consumer, Admin, AsyncProducer, AsyncConsumer, AsyncAdmin)
NOWHERE = "127.0.0.1:1"


def patched(names: set[str]) -> Any:
    """Both libraries' modules, as far as a client looks at them."""
    return SimpleNamespace(is_module_patched=names.__contains__, is_monkey_patched=names.__contains__)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("module", "name", "remedy"),
    [
        ("gevent.monkey", "threading", r"monkey\.patch_all\(thread=False\)"),
        ("eventlet.patcher", "thread", r"eventlet\.monkey_patch\(thread=False\)"),
    ],
)
def test_a_client_with_green_threads_is_refused(
    monkeypatch: pytest.MonkeyPatch, client: type[Any], module: str, name: str, remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, module, patched({name, "socket", "select"}))
    with pytest.raises(GreenThreadsError, match=remedy):
        client(NOWHERE)
    monkeypatch.setitem(sys.modules, module, patched({"socket", "select"}))
    client(NOWHERE)
