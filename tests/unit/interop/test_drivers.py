"""A driver tells a gap of its client's version from a failure, and only from that."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.interop.drivers import serve

LIBRARY = """
class Admin:
    def broken(self):
        return self.nothing
"""
DRIVER = """
import library

def old():
    library.Admin().describe_topics

def older():
    library.TopicCollection

def oldest():
    from library import TopicCollection

def broken():
    library.Admin().broken()

def mistaken():
    {}.nothing
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "drivers" / "one.py"
    path.parent.mkdir()
    path.write_text(DRIVER)
    spec = importlib.util.spec_from_file_location("one", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(serve, "__file__", str(path.with_name("serve.py")))
    return module


def lacking(ask: Any) -> str | None:
    with pytest.raises((AttributeError, ImportError)) as error:
        ask()
    return serve.lacks(error.value)


def test_what_a_version_of_the_client_does_not_have_is_not_offered(driver: ModuleType) -> None:
    assert lacking(driver.old) == "describe_topics"
    assert lacking(driver.older) == "TopicCollection"
    assert lacking(driver.oldest) == "library.TopicCollection"


def test_an_error_inside_the_client_or_a_mistake_of_the_driver_is_a_failure(driver: ModuleType) -> None:
    assert lacking(driver.broken) is None
    assert lacking(driver.mistaken) is None


def test_questions_that_a_version_does_not_have_are_left_out(driver: ModuleType) -> None:
    assert serve.answers({"old": driver.old, "list": lambda: True}) == {"list": True}
    with pytest.raises(serve.NotOffered):
        serve.answers({"old": driver.old})
