"""Every page is made of views in which each text is a script and each number is odd, as a hostile node would send them.

A view is filled by the types of its fields, so a page that is added later is tried as well.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.console.app import json_response
from penstock.console.as_json import jsonable
from penstock.console.change import ChangePlan
from penstock.console.change_table import CHANGES
from penstock.console.fields import FieldError
from penstock.console.page import ConsolePage
from penstock.console.page_table import PAGES
from penstock.console.rendering import template_environment
from penstock.console.settings import ConsoleSettings
from penstock.errors import ApiError, UnknownTopicOrPartitionError

HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{7*7}}\u202e\x00\x1b[31m\r\n&"
NUMBERS = (2**63 - 1, -1, 0)
SETTINGS = ConsoleSettings(bootstrap=HOSTILE, origins=("http://127.0.0.1:1",), allow_changes=True)
DEPTH_MAX = 6
OF_CONSOLE = {"address": "/topic?name=%3Cb%3E", "step_ms": 5_000}
"""Fields of pictures that no node fills."""


def filled(hint: Any, number: int, depth: int = 0) -> Any:
    """A value of the type, as odd as it can be."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = [one for one in inner if one is not type(None)]
        return None if type(None) in inner and number == 0 else filled(some[0], number, depth)
    if origin is typing.Literal:
        return inner[0]
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return () if number == 0 or depth > DEPTH_MAX else (filled(inner[0], number, depth + 1),) * 2
        return tuple(filled(one, number, depth + 1) for one in inner)
    if origin in (dict, Mapping):
        return {filled(inner[0], number, depth + 1): filled(inner[1], number, depth + 1)}
    if not isinstance(hint, type):
        return HOSTILE
    if issubclass(hint, enum.Enum):
        return next(iter(hint))
    if issubclass(hint, ApiError):
        return UnknownTopicOrPartitionError(HOSTILE)
    if hint in SCALARS:
        return {bool: number != 0, int: number, float: float("inf" if number else "nan"), bytes: HOSTILE.encode()}.get(
            hint, HOSTILE
        )
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        names = [one.name for one in dataclasses.fields(hint)] if dataclasses.is_dataclass(hint) else hint._fields  # type: ignore[attr-defined]
        hints = typing.get_type_hints(hint)
        own = {name: OF_CONSOLE[name] for name in names if name in OF_CONSOLE}
        return hint(**{name: filled(hints[name], number, depth + 1) for name in names} | own)
    return HOSTILE


SCALARS = (bool, int, float, str, bytes)


def rendered(template: str, **values: Any) -> str:
    return (
        template_environment()
        .get_template(template)
        .render(menu=PAGES, here="/x", user=HOSTILE, token="t", settings=SETTINGS, wall_ms=0, title=HOSTILE, **values)
    )


def check(text: str) -> None:
    """No text of a node has become a tag, an attribute or a control character. A field of a form comes back as it
    was, between its quotes."""
    text = re.sub(r'(?<= value=)"[^"<>]*"|(?<=rows="5" cols="60">)[^<>]*', '""', text)
    assert not re.search(r"<script(?! src=\"/static/)|<img|onerror=alert\(1\)>", text)
    assert not re.search("[\u202e\x00\x1b]", text)
    for attribute in re.findall(r'(?<![\w-])(?:href|action|src)="([^"]*)"', text):
        assert re.match(r"/[a-z]|#", attribute), attribute


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_of_hostile_answers_is_harmless(page: ConsolePage, number: int) -> None:
    view = filled(typing.get_type_hints(page.show)["return"], number)
    check(rendered(page.template, view=view, page=page, fields=dict.fromkeys(page.fields, HOSTILE)))
    body = json_response(jsonable(view)).body
    assert b"<" not in body
    json.loads(body)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.path)
def test_a_form_with_hostile_fields_is_harmless(change: Any) -> None:
    given = dict.fromkeys(change.names, HOSTILE)
    error = FieldError("name", HOSTILE)
    form = rendered("change.html", change=change, given=given, error=error, plan=None)
    plan = ChangePlan(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)
    sure = rendered("change_plan.html", change=change, given=given, error=error, plan=plan, form_id="f")
    for text in (form, sure):
        check(text)
