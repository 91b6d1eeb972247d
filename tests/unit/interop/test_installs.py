"""Clients and versions are installed once, apart from each other, and one that cannot be had says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.interop.matrix import clients, installs
from tests.interop.matrix.installs import MissingError, made, run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_INTEROP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PENSTOCK_INTEROP_INSTALL", raising=False)
    return tmp_path / "cache"


def test_a_folder_is_made_once_for_each_recipe() -> None:
    recipes: list[str] = []
    for recipe in ("one", "one", "two"):
        made("js", recipe, lambda folder, recipe=recipe: recipes.append(recipe))  # type: ignore[misc]
    assert recipes == ["one", "two"]


def test_an_install_that_failed_begins_anew_in_an_empty_folder() -> None:
    def half(folder: Path) -> None:
        (folder / "half").touch()
        raise MissingError("the registry is not there")

    with pytest.raises(MissingError):
        made("js", "one", half)
    left: list[Path] = []
    made("js", "one", lambda folder: left.extend(folder.iterdir()))
    assert left == []


def test_nothing_is_installed_where_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_INTEROP_INSTALL", "no")
    with pytest.raises(MissingError, match="PENSTOCK_INTEROP_INSTALL"):
        made("js", "one", lambda folder: folder.rmdir())


def test_the_reason_is_the_line_with_the_error(tmp_path: Path) -> None:
    said = "import sys; sys.exit('ERROR: no such version\\nbye')"
    with pytest.raises(MissingError, match=r"^x was not installed: ERROR: no such version$"):
        run([sys.executable, "-c", said], tmp_path, "x was not installed")


def test_a_version_of_a_python_client_has_a_virtual_environment_of_its_own(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(installs, "run", lambda words, _folder, _missing: ran.append(words))
    command = clients.command_of("kafka-python@2.3.3")
    assert command.words[0] == str(cache / "python-kafka-python-2.3.3" / "bin" / "python")
    assert command.version == "2.3.3"
    venv, install = ran
    assert venv[-1] == str(cache / "python-kafka-python-2.3.3")
    assert "kafka-python==2.3.3" in install and set(clients.CODECS) < set(install)


def test_an_older_python_is_tried_where_this_one_has_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def install(words: list[str], _folder: Path, missing: str) -> None:
        tried.append(words[0])
        if words[1:3] == ["-m", "pip"] and "old" not in tried:
            raise MissingError(f"{missing}: no wheel")

    monkeypatch.setattr(installs, "run", install)
    monkeypatch.setattr(installs, "_pythons", lambda: ["new", "old"])
    clients.command_of("confluent-kafka@1.9.2")
    assert tried[0] == "new" and "old" in tried


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.45.0", ["get", "github.com/IBM/sarama@v1.45.0"]),
        ("1.38.1", ["mod", "edit", "-replace=github.com/IBM/sarama=github.com/Shopify/sarama@v1.38.1"]),
    ],
)
def test_an_old_sarama_comes_from_the_module_that_it_was_then(
    monkeypatch: pytest.MonkeyPatch, version: str, words: list[str]
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(clients, "run", lambda words, _folder, _missing: ran.append(words))
    monkeypatch.setattr(clients, "tool", lambda name, *_: name)
    command = clients.command_of(f"sarama@{version}")
    assert ran[0] == ["go", *words]
    assert command.version == version


def test_a_client_whose_tool_is_not_here_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(clients, "GO_FOLDERS", ())
    for client, tool in (("sarama", "go"), ("kafkajs@1.16.0", "npm"), ("java", "mvn"), ("kcat", "kcat")):
        with pytest.raises(MissingError, match=f"^{tool} is not installed"):
            clients.command_of(client)


def test_the_versions_of_the_page_are_of_clients_that_there_are() -> None:
    assert {clients.name_of(asked) for asked in clients.VERSIONS} == set(clients.CLIENTS)
