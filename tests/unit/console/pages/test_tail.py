"""The page of the live tail leads to the stream of its topic, whatever the letters of its name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.admin import TopicDescription
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.pages.tail import TAIL_ROWS_MAX, show_tail
from penstock.console.settings import ConsoleSettings


class FakeLinkWithTopic:
    class admin:
        @staticmethod
        async def describe_topic(name: str) -> TopicDescription:
            return TopicDescription(name, "id", ())


def asked(**fields: str) -> PageAsked:
    link: Any = FakeLinkWithTopic()
    return PageAsked(link, Fields(fields), ConsoleSettings(bootstrap="b:1", origins=("http://h",)), 0)


def test_a_tail_leads_to_the_stream_of_its_topic() -> None:
    view = asyncio.run(show_tail(asked(name="a&b=c")))
    assert (view.name, view.stream) == ("a&b=c", "/tail/stream?name=a%26b%3Dc")
    assert view.rows_max == TAIL_ROWS_MAX
    with pytest.raises(FieldError, match="name: is missing"):
        asyncio.run(show_tail(asked()))
