"""A client's token: read or asked for anew at each log-in, beside the loop, and in no error."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.client.wire.token_login import TokenLogin, token_login
from penstock.errors import ConfigError, NetworkError

TOKEN = "eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl"


def shown(login: TokenLogin) -> str:
    """The token that it shows to a broker."""
    return asyncio.run(message_of(login))


async def message_of(login: TokenLogin) -> str:
    return ((await login.begin()).respond() or b"").split(b"Bearer ")[1].rstrip(b"\x01").decode()


def made(**given: Any) -> TokenLogin:
    found = token_login(given.get("token"), given.get("token_file"), given.get("token_provider"))
    assert found is not None
    return found


def test_a_file_is_read_again_at_each_log_in(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    login = made(token_file=file)
    assert shown(login) == "first"
    file.write_text("  second  \n")
    assert shown(login) == "second"
    for broken in ("", "two\nlines\n", "ä"):
        file.write_text(broken)
        with pytest.raises(NetworkError, match=r"token_file=.* has failed: ConfigError"):
            shown(login)
    file.unlink()
    with pytest.raises(NetworkError, match="has failed"):
        shown(login)
    file.write_text("third")
    assert shown(login) == "third", "what was wrong for a moment is over"


@pytest.mark.parametrize(("content", "says"), [(None, "token_file"), ("", "must have a token"), ("a b", "in one line")])
def test_a_file_that_has_no_token_at_the_start_refuses_the_client(
    tmp_path: Path, content: str | None, says: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=says):
        made(token_file=file)


@pytest.mark.parametrize("error", [ValueError(TOKEN), SystemExit(1), KeyboardInterrupt()])
def test_a_function_that_fails_is_called_again_at_the_next_log_in(error: BaseException) -> None:
    """Also one that ends its program, as the code of a command line does: it ends its thread, and nobody waits on."""
    answers: list[BaseException | str] = [error, TOKEN]

    def provide() -> str:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    login = made(token_provider=provide)

    async def refused() -> str:
        with pytest.raises(NetworkError, match="token_provider has failed") as caught:
            await asyncio.wait_for(login.begin(), 10)
        return str(caught.value)

    assert TOKEN not in asyncio.run(refused())
    assert shown(login) == TOKEN


def test_a_function_is_called_beside_the_loop_and_once_for_all_who_log_in() -> None:
    threads: list[threading.Thread] = []
    may_go = threading.Event()

    def provide() -> str:
        threads.append(threading.current_thread())
        may_go.wait(60)
        return TOKEN

    async def story() -> None:
        login = made(token_provider=provide)
        waiting = [asyncio.ensure_future(message_of(login)) for _ in range(20)]
        await asyncio.sleep(0)
        may_go.set()
        assert await asyncio.gather(*waiting) == [TOKEN] * 20
        assert await message_of(login) == TOKEN

    asyncio.run(story())
    assert len(threads) == 2 and all(one.daemon and one is not threading.main_thread() for one in threads)


def test_who_stops_waiting_does_not_stop_the_others() -> None:
    may_go = threading.Event()

    def provide() -> str:
        may_go.wait(60)
        return TOKEN

    async def story() -> None:
        login = made(token_provider=provide)
        impatient, patient = (asyncio.ensure_future(message_of(login)) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        may_go.set()
        assert await patient == TOKEN

    asyncio.run(story())


@pytest.mark.parametrize("given", [None, 7, b"bytes", "", "a b", "x" * 20_000])
def test_what_is_no_token_is_an_error_without_it(given: Any) -> None:
    with pytest.raises(NetworkError, match="token_provider has given no token") as raised:
        shown(made(token_provider=lambda: given))
    assert "xxx" not in str(raised.value)


def test_a_function_that_fails_is_named_and_not_quoted() -> None:
    def fail() -> str:
        raise RuntimeError(f"client_secret={TOKEN}")

    with pytest.raises(NetworkError, match="token_provider has failed: RuntimeError") as raised:
        shown(made(token_provider=fail))
    assert TOKEN not in str(raised.value) and isinstance(raised.value.__cause__, RuntimeError)


def test_no_text_has_the_token() -> None:
    login = made(token=TOKEN)
    assert shown(login) == TOKEN
    assert str(login) == "the user of token" and TOKEN not in repr(login)
    assert token_login(None, None, None) is None
