"""Downloads of a record's key or value, as the bytes that it has.

A browser saves them and shows nothing: the type says only that they are bytes, and the name has letters of ours alone.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from penstock.console.changing import ChangingConsole
from penstock.console.fields import FieldError, Fields
from penstock.console.pages.record import read_record

PARTS: Final = ("value", "key")
FIELDS: Final = ("topic", "partition", "offset", "part")


def download_route(console: ChangingConsole) -> BaseRoute:
    """The route of /download."""
    return Route("/download", partial(_download, console), methods=["GET"])


async def _download(console: ChangingConsole, request: Request) -> Response:
    browser = None
    try:
        browser = await console.browsers.find(request)
        fields = Fields.parsed(request.scope["query_string"], FIELDS)
        part = fields.choice("part", PARTS, "value")
        asked = console.asked(browser, fields)
        with console.asking(browser):
            record = await browser.link.once(lambda: read_record(asked))
        data = record.value if part == "value" else record.key
        if data is None:
            raise FieldError("part", f"the {part} is null")
    except Exception as error:
        return console.failed(error, browser, request, as_json=False)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{record.topic}-{record.partition}-{record.offset}.{part}")
    return Response(
        data,
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
